// core/memory/failing_new_test.h - makes operator new fail where an AllocationFault says so.
// Include it in one source of a test program: it replaces operator new of the whole program.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <exception>
#include <new>
#include <optional>

#include "core/device/device_test.h"
#include "core/memory/allocation_fault.h"

namespace emblem {

// Whether operator new is counted and may fail. Libraries of GPUs do not expect that of it.
inline bool heap_may_fail = false;

inline void* allocate_or_fail(size_t bytes, size_t alignment) {
  if (heap_may_fail && allocation_must_fail()) throw std::bad_alloc();
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* data = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

// What fails: memory that Emblem allocates for data, or that of operator new, too. Protobuf does
// not survive the latter.
enum class Failing { kData, kHeapToo };

// What a body of a test on this device may do without.
inline Failing failing_on(Device device) {
  return device == Device::kCpu ? Failing::kHeapToo : Failing::kData;
}

// Tests whose allocations have an order: without threads, on a stream of their own.
class AllocationTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    context_.threads = nullptr;
    if (!IsSkipped()) stream_ = use_own_stream(context_);
  }
  std::shared_ptr<cuda::Stream> stream_;
};

// Calls body() once for each allocation that it makes, which fails in that call. Before each call
// prepare(); after each call check(result of body(), empty where it threw). Returns the number of
// allocations.
template <class Prepare, class Body, class Check>
int64_t fail_each_allocation(Failing failing, Prepare&& prepare, Body&& body, Check&& check) {
  for (int64_t number = 0;; ++number) {
    prepare();
    std::optional<decltype(body())> result;
    bool reached = false;
    {
      AllocationFault fault(number);
      heap_may_fail = failing == Failing::kHeapToo;
      try {
        result.emplace(body());
      } catch (const Error& error) {
        heap_may_fail = false;
        if (error.code() != ErrorCode::kOutOfMemory) throw;
      } catch (const std::bad_alloc&) {
      }
      heap_may_fail = false;
      reached = fault.reached();
    }
    check(result);
    if (!reached) return number;
  }
}

}  // namespace emblem

// Not inlined: compilers know that memory of new is not for free().
[[gnu::noinline]] void* operator new(size_t bytes) {
  return emblem::allocate_or_fail(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
[[gnu::noinline]] void* operator new(size_t bytes, std::align_val_t alignment) {
  return emblem::allocate_or_fail(bytes, static_cast<size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* data) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete(void* data, size_t) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete(void* data, std::align_val_t) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete(void* data, size_t, std::align_val_t) noexcept {
  std::free(data);
}
