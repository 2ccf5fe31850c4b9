#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "core/memory/allocation_fault.h"
#include "core/memory/buffer.h"
#include "core/memory/heap_account.h"

namespace emblem {

namespace cuda {  // defined in memory_cuda.cu
void* allocate(size_t bytes);
void release(void* data) noexcept;
void copy(const Context& context, void* dst, const void* src, size_t bytes);
void zero(const Context& context, void* data, size_t bytes);
void synchronize(const Context& context);
}  // namespace cuda

void Context::synchronize() const {
  if (device == Device::kCuda)
    dispatch(
        device, [] {}, [&] { cuda::synchronize(*this); });
}

namespace detail {
namespace {

constexpr size_t kLine = 64;  // a cache line, and the widest vector
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kHugeFrom = 2 * kHugePage;

// Large buffers are in huge pages if the system has them: kernels that walk over a batch by
// columns would otherwise miss the address cache at every row.
void* allocate_cpu(size_t bytes) {
  if (allocation_must_fail()) throw std::bad_alloc();
  const size_t alignment = bytes >= kHugeFrom ? kHugePage : kLine;
  const size_t rounded = std::max((bytes + alignment - 1) / alignment * alignment, alignment);
  void* data = heap::allocate(rounded, alignment);
  if (bytes >= kHugeFrom) madvise(data, rounded, MADV_HUGEPAGE);
  if (buffers_are_poisoned()) std::memset(data, 0xff, rounded);
  return data;
}

}  // namespace

void* allocate(Device device, size_t bytes) {
  return dispatch(
      device, [&] { return allocate_cpu(bytes); }, [&] { return cuda::allocate(bytes); });
}

void release(Device device, void* data) noexcept {
  dispatch(
      device, [&] { heap::release(data); }, [&] { cuda::release(data); });
}

void copy(const Context& context, void* dst, const void* src, size_t bytes) {
  if (bytes == 0) return;
  dispatch(
      context.device, [&] { std::memcpy(dst, src, bytes); },
      [&] { cuda::copy(context, dst, src, bytes); });
}

void zero(const Context& context, void* data, size_t bytes) {
  if (bytes == 0) return;
  dispatch(
      context.device, [&] { std::memset(data, 0, bytes); },
      [&] { cuda::zero(context, data, bytes); });
}

}  // namespace detail
}  // namespace emblem
