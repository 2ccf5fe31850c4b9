// core/memory/block_pool.h - memory that is expensive to get, kept and handed out again.
#pragma once

#include <map>
#include <memory_resource>
#include <mutex>
#include <vector>

namespace emblem {

// Blocks come out of large slabs of `upstream`, or are slabs of their own where they are large.
// Freed blocks are reused for others of about their size; slabs are kept until the pool
// goes. Aligned to 256 bytes. May be used by many threads at once.
class BlockPool final : public std::pmr::memory_resource {
 public:
  static constexpr size_t kAlignment = 256;
  static constexpr size_t kSlabBytes = size_t{32} << 20;

  explicit BlockPool(std::pmr::memory_resource* upstream) : upstream_(upstream) {}
  ~BlockPool() override;

  // What a block of `bytes` takes: at most a quarter more.
  static size_t rounded(size_t bytes);

 private:
  struct Slab {
    void* data;
    size_t bytes;
  };

  void* do_allocate(size_t bytes, size_t alignment) override;
  void do_deallocate(void* data, size_t bytes, size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }
  char* new_slab(size_t bytes);

  std::pmr::memory_resource* const upstream_;
  std::mutex mutex_;  // guards all below
  std::vector<Slab> slabs_;
  std::map<size_t, std::vector<void*>> free_;  // by rounded size
  char* next_ = nullptr;                       // the rest of the newest slab that is shared
  size_t left_ = 0;
};

}  // namespace emblem
