#include "comm/nccl/rank_gpu.h"

#include <gtest/gtest.h>

#include "comm/nccl/open_device.h"
#include "comm/threads/threads.h"

namespace emblem {
namespace {

TEST(RankGpu, RanksOfAHostUseItsGpusInTurn) {
  EXPECT_EQ(gpu_of_rank(0, std::nullopt, 4), "0");
  EXPECT_EQ(gpu_of_rank(3, std::nullopt, 4), "3");
  EXPECT_EQ(gpu_of_rank(6, std::nullopt, 4), "2");
}

TEST(RankGpu, IsOneOfThoseThatAreVisible) {
  EXPECT_EQ(gpu_of_rank(1, "2,5,7", 8), "5");
  EXPECT_EQ(gpu_of_rank(3, "GPU-8932f937,GPU-11aa22bb", 8), "GPU-11aa22bb");
}

TEST(RankGpu, ThereIsNothingToChooseFromOneOrNone) {
  EXPECT_EQ(gpu_of_rank(1, std::nullopt, 1), std::nullopt);
  EXPECT_EQ(gpu_of_rank(1, std::nullopt, 0), std::nullopt);
  EXPECT_EQ(gpu_of_rank(1, "3", 8), std::nullopt);
  EXPECT_EQ(gpu_of_rank(1, "", 8), std::nullopt);
}

TEST(RankGpu, IsSharedByRanksWithTheSameId) {
  const GpuId a{'a'}, b{'b'}, c{'c'};
  EXPECT_EQ(ranks_that_share(std::vector<GpuId>{a, b, c}), 0u);
  EXPECT_EQ(ranks_that_share(std::vector<GpuId>{a}), 0u);
  const std::vector<GpuId> gpus = {a, b, a, c, b, a};
  EXPECT_EQ(ranks_that_share(gpus), 5u);
  EXPECT_TRUE(shares_gpu(gpus, 4));
  EXPECT_FALSE(shares_gpu(gpus, 3));
}

TEST(RankGpu, OfAllRanksIsKnownToEach) {
  run_thread_ranks(3, [](Communicator& ranks) {
    const auto gpus = gather_gpus(ranks, GpuId{static_cast<char>('a' + ranks.rank())});
    EXPECT_EQ(gpus, (std::vector<GpuId>{{'a'}, {'b'}, {'c'}}));
  });
}

// "auto" is staged there.
TEST(RankGpu, NcclNeedsOneForEachRank) {
  const auto ranks = make_thread_ranks(2);
  EXPECT_TRUE(can_use_nccl(*ranks[0], std::vector<GpuId>{{'a'}, {'b'}}));
  EXPECT_FALSE(can_use_nccl(*ranks[0], std::vector<GpuId>{{'a'}, {'a'}}));
  EXPECT_FALSE(can_use_nccl(*ranks[1], std::vector<GpuId>{{'a'}, {'a'}, {'b'}}));
}

}  // namespace
}  // namespace emblem
