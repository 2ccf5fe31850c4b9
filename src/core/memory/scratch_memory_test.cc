#include "core/memory/scratch_memory.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace emblem {
namespace {

TEST(ScratchMemory, IsKeptWhileItIsNeededNowAndThen) {
  ScratchMemory<float> memory;
  const float* const first = memory.take(1000);
  for (int use = 0; use < 5 * ScratchMemory<float>::kUses; ++use) {
    ASSERT_EQ(memory.take(use % 1000 == 0 ? 1000 : 10), first);
  }
  EXPECT_EQ(memory.size(), 1000u);
}

TEST(ScratchMemory, IsFreedWhenItIsNotNeededAnyMore) {
  ScratchMemory<float> memory;
  memory.take(1000);
  for (int use = 0; use < 2 * ScratchMemory<float>::kUses + 2; ++use) memory.take(10);
  EXPECT_EQ(memory.size(), 10u);
  memory.take(0);
  EXPECT_EQ(memory.size(), 10u);
}

TEST(ScratchMemory, HoldsWhatIsTakenInAnyOrder) {
  ScratchMemory<char> memory;
  for (int use = 0; use < 3 * ScratchMemory<char>::kUses; ++use) {
    const size_t count = static_cast<size_t>(use) * 7919 % 5000;
    char* const taken = memory.take(count);
    std::fill_n(taken, count, 'x');
    ASSERT_LE(count, memory.size());
  }
}

}  // namespace
}  // namespace emblem
