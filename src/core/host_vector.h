// core/host_vector.h - a std::vector whose resize leaves new elements uninitialized: batch buffers
// are resized every step and overwritten at once.
#pragma once

#include <memory>
#include <vector>

namespace emblem {

template <class T>
struct UninitializedAllocator : std::allocator<T> {
  template <class U>
  struct rebind {
    using other = UninitializedAllocator<U>;
  };
  template <class U>
  void construct(U* at) noexcept {
    ::new (static_cast<void*>(at)) U;
  }
  template <class U, class... Arguments>
  void construct(U* at, Arguments&&... arguments) {
    ::new (static_cast<void*>(at)) U(std::forward<Arguments>(arguments)...);
  }
};

template <class T>
using HostVector = std::vector<T, UninitializedAllocator<T>>;

}  // namespace emblem
