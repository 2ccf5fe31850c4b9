#include "ps/tables/count_allocations_test.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<int64_t> count{0};
}  // namespace

void* operator new(std::size_t bytes) {
  count.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return operator new(bytes);
  } catch (...) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

int64_t emblem::allocations() { return count.load(std::memory_order_relaxed); }
