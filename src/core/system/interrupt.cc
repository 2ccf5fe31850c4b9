#include "core/system/interrupt.h"

#include <atomic>

#include "core/system/subprocess.h"

namespace emblem {
namespace {

// Signal handlers can reach nothing but globals.
std::atomic<int> first_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "handlers may use lock-free atomics only");

}  // namespace

bool interrupted() { return first_signal != 0; }

int request_interrupt(int signal) {
  int before = 0;
  first_signal.compare_exchange_strong(before, signal);
  return before;
}

void clear_interrupt() { first_signal = 0; }

int interrupted_status() {
  const int signal = first_signal;
  return signal == 0 ? 0 : kStatusOfSignal + signal;
}

}  // namespace emblem
