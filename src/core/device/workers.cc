#include "core/device/workers.h"

#include <cstdlib>

#include "core/device/gpu.h"
#include "core/text/parse_number.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// EMBLEM_THREADS, or all CPUs.
int default_threads() {
  const char* given = std::getenv("EMBLEM_THREADS");
  if (given == nullptr) return available_cpus();
  const auto threads = parse_number<int>(given);
  EMBLEM_REQUIRE(threads && *threads >= 1 && *threads <= 1024, "EMBLEM_THREADS is \"", given,
                 "\"; expected 1 to 1024");
  return *threads;
}

}  // namespace

Workers make_workers(Device device, int threads) {
  Workers workers;
  workers.pool = std::make_unique<ThreadPool>(threads > 0 ? threads : default_threads());
  workers.context.threads = workers.pool.get();
  if (device != Device::kCuda) return workers;
  workers.context.device = Device::kCuda;
  dispatch(
      Device::kCuda, [] {},
      [&] {
        cuda::require_usable_gpu();
        workers.stream = std::make_shared<cuda::Stream>();
        workers.context.stream = workers.stream->get();
      });
  return workers;
}

}  // namespace emblem
