#include "core/memory/block_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>

#include "core/memory/host_vector.h"

namespace emblem {
namespace {

// Counts what is taken from the heap.
class Counted final : public std::pmr::memory_resource {
 public:
  int64_t taken = 0, bytes = 0;

 private:
  void* do_allocate(size_t size, size_t alignment) override {
    ++taken;
    bytes += static_cast<int64_t>(size);
    return std::pmr::new_delete_resource()->allocate(size, alignment);
  }
  void do_deallocate(void* data, size_t size, size_t alignment) override {
    bytes -= static_cast<int64_t>(size);
    std::pmr::new_delete_resource()->deallocate(data, size, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }
};

using Ints = HostVector<int64_t>;
Ints ints_in(std::pmr::memory_resource& memory) { return Ints(Ints::allocator_type(&memory)); }

TEST(BlockPool, SmallBlocksShareASlabAndLargeOnesHaveTheirOwn) {
  Counted heap;
  {
    BlockPool pool(&heap);
    void* const small = pool.allocate(1000);
    void* const other = pool.allocate(1000);
    EXPECT_NE(small, other);
    EXPECT_EQ(heap.taken, 1);
    void* const large = pool.allocate(BlockPool::kSlabBytes);
    EXPECT_EQ(heap.taken, 2);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(other) % BlockPool::kAlignment, 0u);
    pool.deallocate(large, BlockPool::kSlabBytes);
    EXPECT_EQ(pool.allocate(BlockPool::kSlabBytes - 1000), large);
    EXPECT_EQ(heap.taken, 2);
  }
  EXPECT_EQ(heap.bytes, 0);
}

TEST(BlockPool, RoundsUpByAQuarterAtMost) {
  for (size_t bytes = 1; bytes < 100000; bytes += 37) {
    const size_t rounded = BlockPool::rounded(bytes);
    EXPECT_GE(rounded, bytes);
    EXPECT_LE(rounded, std::max(bytes + bytes / 4, bytes + BlockPool::kAlignment));
    EXPECT_EQ(rounded % BlockPool::kAlignment, 0u);
    EXPECT_EQ(BlockPool::rounded(rounded), rounded);
  }
}

TEST(BlockPool, VectorsThatComeAndGoTakeNothingNew) {
  Counted heap;
  BlockPool pool(&heap);
  for (int round = 0; round < 10; ++round) {
    Ints some = ints_in(pool);
    some.resize(65536 - round);
    std::iota(some.begin(), some.end(), round);
    EXPECT_EQ(some.back(), 65535);
  }
  EXPECT_EQ(heap.taken, 1);
}

TEST(HandOver, SwapsWithinOneMemoryAndCopiesOnceBetweenTwo) {
  BlockPool pool(std::pmr::new_delete_resource());
  Ints from = {1, 2, 3};  // in the heap
  Ints to = ints_in(pool);
  hand_over(from, to);
  EXPECT_EQ(to, Ints({1, 2, 3}));
  EXPECT_EQ(to.get_allocator().memory, &pool);
  EXPECT_EQ(from.get_allocator().memory, &pool);
  from.assign({4, 5});
  const int64_t* const data = from.data();
  hand_over(from, to);
  EXPECT_EQ(to, Ints({4, 5}));
  EXPECT_EQ(to.data(), data);
}

}  // namespace
}  // namespace emblem
