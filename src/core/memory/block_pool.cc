#include "core/memory/block_pool.h"

#include <algorithm>
#include <bit>

#include "emblem/error.h"

namespace emblem {

BlockPool::~BlockPool() {
  for (const Slab& slab : slabs_) upstream_->deallocate(slab.data, slab.bytes, kAlignment);
}

size_t BlockPool::rounded(size_t bytes) {
  if (bytes <= kAlignment) return kAlignment;
  const size_t step = std::max(std::bit_floor(bytes - 1) / 4, kAlignment);
  return (bytes + step - 1) / step * step;
}

char* BlockPool::new_slab(size_t bytes) {
  slabs_.reserve(slabs_.size() + 1);
  void* const data = upstream_->allocate(bytes, kAlignment);
  slabs_.push_back({data, bytes});
  return static_cast<char*>(data);
}

void* BlockPool::do_allocate(size_t bytes, size_t alignment) {
  EMBLEM_REQUIRE(alignment <= kAlignment, "a pool's blocks are aligned to ", kAlignment,
                 " bytes, not ", alignment);
  const size_t wanted = rounded(bytes);
  const std::lock_guard lock(mutex_);
  std::vector<void*>& free = free_[wanted];
  if (!free.empty()) {
    void* const data = free.back();
    free.pop_back();
    return data;
  }
  if (wanted > kSlabBytes / 4) return new_slab(wanted);
  if (wanted > left_) {
    next_ = new_slab(kSlabBytes);
    left_ = kSlabBytes;
  }
  char* const data = next_;
  next_ += wanted;
  left_ -= wanted;
  return data;
}

void BlockPool::do_deallocate(void* data, size_t bytes, size_t) {
  const std::lock_guard lock(mutex_);
  free_[rounded(bytes)].push_back(data);
}

}  // namespace emblem
