#include "data/format/read_throttle.h"

#if defined(EMBLEM_TEST_HOOKS)

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

double bytes_per_second() {
  const char* rate = std::getenv("EMBLEM_TEST_READ_BYTES_PER_SECOND");
  return rate == nullptr ? 0.0 : std::atof(rate);
}

// The disk: one for the process, as there would be one for the machine.
struct Disk {
  double rate = bytes_per_second();
  std::mutex mutex;
  Clock::time_point free = Clock::now();
};

}  // namespace

void throttle_read(int64_t bytes) {
  static Disk disk;
  if (disk.rate <= 0) return;
  Clock::time_point done;
  {
    const std::lock_guard lock(disk.mutex);
    disk.free = std::max(disk.free, Clock::now()) +
                std::chrono::duration_cast<Clock::duration>(
                    std::chrono::duration<double>(static_cast<double>(bytes) / disk.rate));
    done = disk.free;
  }
  std::this_thread::sleep_until(done);
}

}  // namespace emblem

#endif
