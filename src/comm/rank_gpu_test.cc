#include "comm/rank_gpu.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace emblem
