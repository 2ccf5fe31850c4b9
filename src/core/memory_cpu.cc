#include <cstdlib>
#include <cstring>
#include <new>

#include "core/buffer.h"

namespace emblem {

namespace cuda {  // defined in memory_cuda.cu
void* allocate(size_t bytes);
void release(void* data) noexcept;
void copy(const Context& context, void* dst, const void* src, size_t bytes);
void synchronize(const Context& context);
}  // namespace cuda

void Context::synchronize() const {
  if (device == Device::kCuda) dispatch(device, [] {}, [&] { cuda::synchronize(*this); });
}

namespace detail {
namespace {
constexpr std::align_val_t kAlignment{64};  // a cache line, and the widest vector
}

void* allocate(Device device, size_t bytes) {
  return dispatch(device, [&] { return ::operator new(bytes, kAlignment); },
                  [&] { return cuda::allocate(bytes); });
}

void release(Device device, void* data) noexcept {
  dispatch(device, [&] { ::operator delete(data, kAlignment); }, [&] { cuda::release(data); });
}

void copy(const Context& context, void* dst, const void* src, size_t bytes) {
  if (bytes == 0) return;
  dispatch(context.device, [&] { std::memcpy(dst, src, bytes); },
           [&] { cuda::copy(context, dst, src, bytes); });
}

}  // namespace detail
}  // namespace emblem
