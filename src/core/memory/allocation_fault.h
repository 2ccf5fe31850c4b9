// core/memory/allocation_fault.h - lets a test make allocations fail. In builds without tests:
// nothing.
//
// What allocates memory that grows with data (buffers on every device, pages of tables, pinned
// memory, recorded graphs) asks allocation_must_fail() first, and fails as if there was no memory.
#pragma once

#if defined(EMBLEM_TEST_HOOKS)

#include <cstdint>
#include <limits>

namespace emblem {

// While it exists, allocation number `first` of the process, counted from 0, fails, and so do
// `count` - 1 after it. One at a time.
class AllocationFault {
 public:
  static constexpr int64_t kAll = std::numeric_limits<int64_t>::max() / 2;

  explicit AllocationFault(int64_t first, int64_t count = 1);
  ~AllocationFault();
  AllocationFault(const AllocationFault&) = delete;
  AllocationFault& operator=(const AllocationFault&) = delete;

  bool reached() const;  // whether an allocation has failed
};

bool allocation_must_fail() noexcept;  // counts the call

// While it exists, new buffers are full of bytes 0xff, which are NaN in every type of floats: what
// reads before it writes shows. One at a time.
class PoisonedBuffers {
 public:
  PoisonedBuffers();
  ~PoisonedBuffers();
  PoisonedBuffers(const PoisonedBuffers&) = delete;
  PoisonedBuffers& operator=(const PoisonedBuffers&) = delete;
};

bool buffers_are_poisoned() noexcept;

}  // namespace emblem

#else

namespace emblem {
constexpr bool allocation_must_fail() noexcept { return false; }
constexpr bool buffers_are_poisoned() noexcept { return false; }
}  // namespace emblem

#endif
