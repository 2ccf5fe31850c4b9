#include "core/memory/allocation_fault.h"

#if defined(EMBLEM_TEST_HOOKS)

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <string>

namespace emblem {
namespace {

// State of the process: allocations since a fault was set, and the numbers of those that fail.
std::atomic<bool> active{false};
std::atomic<int64_t> made{0};
int64_t fails_from = 0, fails_before = 0;
std::atomic<bool> poisoned{false};

// Whole programs: while the file that EMBLEM_TEST_ALLOCATION_FAULTS names exists and has the word
// "all", all allocations fail; with a number, as many succeed, the next fails, and the file then
// has the word "failed".
bool file_says_so() noexcept {
  static const char* const path = std::getenv("EMBLEM_TEST_ALLOCATION_FAULTS");
  if (path == nullptr) return false;
  static std::mutex mutex;
  try {
    const std::lock_guard lock(mutex);
    std::string word;
    if (!(std::ifstream(path) >> word) || word == "failed") return false;
    if (word == "all") return true;
    const int64_t left = std::stoll(word);
    std::ofstream(path) << (left == 0 ? "failed" : std::to_string(left - 1));
    return left == 0;
  } catch (...) {
    return false;
  }
}

}  // namespace

AllocationFault::AllocationFault(int64_t first, int64_t count) {
  fails_from = first;
  fails_before = first + count;
  made = 0;
  active = true;
}

AllocationFault::~AllocationFault() { active = false; }

bool AllocationFault::reached() const { return made > fails_from; }

bool allocation_must_fail() noexcept {
  if (!active.load(std::memory_order_relaxed)) [[likely]]
    return file_says_so();
  const int64_t number = made++;
  return number >= fails_from && number < fails_before;
}

PoisonedBuffers::PoisonedBuffers() { poisoned = true; }
PoisonedBuffers::~PoisonedBuffers() { poisoned = false; }

bool buffers_are_poisoned() noexcept { return poisoned.load(std::memory_order_relaxed); }

}  // namespace emblem

#endif
