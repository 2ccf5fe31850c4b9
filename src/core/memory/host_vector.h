// core/memory/host_vector.h - a std::vector whose resize leaves new elements uninitialized: batch
// buffers are resized every step and overwritten at once.
#pragma once

#include <memory>
#include <memory_resource>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace emblem {

// Takes memory from `memory`, which outlives it, or from the heap where that is null, at the begin
// of a cache line. Which one it is moves with the elements.
template <class T>
struct UninitializedAllocator {
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;
  using is_always_equal = std::false_type;

  static constexpr std::align_val_t kAlign{64};

  std::pmr::memory_resource* memory = nullptr;

  UninitializedAllocator() = default;
  explicit UninitializedAllocator(std::pmr::memory_resource* from) noexcept : memory(from) {}
  template <class U>
  UninitializedAllocator(const UninitializedAllocator<U>& other) noexcept : memory(other.memory) {}

  T* allocate(size_t count) {
    if (memory == nullptr) return static_cast<T*>(::operator new(count * sizeof(T), kAlign));
    return static_cast<T*>(memory->allocate(count * sizeof(T), alignof(T)));
  }
  void deallocate(T* data, size_t count) noexcept {
    if (memory == nullptr) return ::operator delete(data, kAlign);
    memory->deallocate(data, count * sizeof(T), alignof(T));
  }

  template <class U>
  void construct(U* at) noexcept {
    ::new (static_cast<void*>(at)) U;
  }
  template <class U, class... Arguments>
  void construct(U* at, Arguments&&... arguments) {
    ::new (static_cast<void*>(at)) U(std::forward<Arguments>(arguments)...);
  }

  template <class U>
  bool operator==(const UninitializedAllocator<U>& other) const noexcept {
    return memory == other.memory;
  }
};

template <class T>
using HostVector = std::vector<T, UninitializedAllocator<T>>;

// Gives `to` the elements of `from`, which is left with others. Each keeps to its memory: where
// these differ the elements are copied, and `from` takes its memory from where `to` does from now
// on.
template <class T>
void hand_over(HostVector<T>& from, HostVector<T>& to) {
  if (from.get_allocator() == to.get_allocator()) return std::swap(from, to);
  to.assign(from.begin(), from.end());
  from = HostVector<T>(to.get_allocator());
}

}  // namespace emblem
