#include "serve/engine/counted_new.h"

#include <new>

#include "core/memory/heap_account.h"

namespace emblem {

void count_operator_new() {}

}  // namespace emblem

namespace {

using emblem::heap::allocate;
using emblem::heap::release;
using std::align_val_t;
using std::nothrow_t;

void* try_allocate(size_t bytes, size_t alignment) noexcept {
  try {
    return allocate(bytes, alignment);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
size_t size(align_val_t alignment) { return static_cast<size_t>(alignment); }

}  // namespace

// All forms: sanitizers replace those that a program omits by their own.

void* operator new(size_t bytes) { return allocate(bytes, 0); }
void* operator new[](size_t bytes) { return allocate(bytes, 0); }
void* operator new(size_t bytes, align_val_t to) { return allocate(bytes, size(to)); }
void* operator new[](size_t bytes, align_val_t to) { return allocate(bytes, size(to)); }
void* operator new(size_t bytes, const nothrow_t&) noexcept { return try_allocate(bytes, 0); }
void* operator new[](size_t bytes, const nothrow_t&) noexcept { return try_allocate(bytes, 0); }
void* operator new(size_t bytes, align_val_t to, const nothrow_t&) noexcept {
  return try_allocate(bytes, size(to));
}
void* operator new[](size_t bytes, align_val_t to, const nothrow_t&) noexcept {
  return try_allocate(bytes, size(to));
}

void operator delete(void* data) noexcept { release(data); }
void operator delete[](void* data) noexcept { release(data); }
void operator delete(void* data, align_val_t) noexcept { release(data); }
void operator delete[](void* data, align_val_t) noexcept { release(data); }
void operator delete(void* data, size_t) noexcept { release(data); }
void operator delete[](void* data, size_t) noexcept { release(data); }
void operator delete(void* data, size_t, align_val_t) noexcept { release(data); }
void operator delete[](void* data, size_t, align_val_t) noexcept { release(data); }
void operator delete(void* data, const nothrow_t&) noexcept { release(data); }
void operator delete[](void* data, const nothrow_t&) noexcept { release(data); }
void operator delete(void* data, align_val_t, const nothrow_t&) noexcept { release(data); }
void operator delete[](void* data, align_val_t, const nothrow_t&) noexcept { release(data); }
