#include "serve/engine/counted_new.h"

#include <new>

#include "core/heap_account.h"

namespace emblem {

void count_operator_new() {}

}  // namespace emblem

// The forms for arrays, without exceptions and with sizes call these.

void* operator new(size_t bytes) { return emblem::heap::allocate(bytes, 0); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return emblem::heap::allocate(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* data) noexcept { emblem::heap::release(data); }
void operator delete(void* data, std::align_val_t) noexcept { emblem::heap::release(data); }
void operator delete(void* data, size_t) noexcept { emblem::heap::release(data); }
void operator delete(void* data, size_t, std::align_val_t) noexcept { emblem::heap::release(data); }
