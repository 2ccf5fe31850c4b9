#include "bench/machine/ceilings.h"

#include <gtest/gtest.h>

#include <chrono>

#include "core/threads/thread_pool.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr CeilingEffort kCeilingsSmall = {.memory_bytes = 3 << 20, .gemm_size = 96, .seconds = 0};

class CeilingsOnThreads : public testing::TestWithParam<int> {};

TEST_P(CeilingsOnThreads, ArePlausibleRates) {
  ThreadPool threads(GetParam());
  const Context context{.threads = &threads};
  const Ceilings ceilings = measure_ceilings(context, 16, DType::kF32, kCeilingsSmall);
  for (const double rate : {ceilings.copy_bytes_per_second, ceilings.gather_bytes_per_second,
                            ceilings.gemm_flops_per_second, ceilings.arithmetic_flops_per_second}) {
    EXPECT_GT(rate, 0);
    EXPECT_LT(rate, 1e14);
  }
}

INSTANTIATE_TEST_SUITE_P(Counts, CeilingsOnThreads, testing::Values(1, 2, 3));

TEST(Ceilings, RowsAreCopiedInBatchesOfAnySize) {
  const Context context;
  for (const int64_t copies : {1, 2}) {
    const RowCopies of{9, 3, 2, copies, copies, {{1, 8, 0}, std::vector<int64_t>(5000, 4), {}}};
    EXPECT_GT(measure_row_copies(context, of, kCeilingsSmall), 0);
  }
}

TEST(Ceilings, OddSizesAndTheCallingThreadAloneWork) {
  const Context context;
  CeilingEffort odd = kCeilingsSmall;
  odd.memory_bytes = 1000003;
  for (const int64_t dim : {1, 3, 17, 128, 1000})
    EXPECT_GT(measure_gather(context, dim, odd), 0) << dim;
  odd.memory_bytes = 1;
  EXPECT_GT(measure_copy(context, odd), 0);
  EXPECT_GT(measure_gather(context, 16, odd), 0);
  odd.gemm_size = 1;
  EXPECT_GT(measure_gemm(context, DType::kF32, odd), 0);
}

TEST(Ceilings, RefuseInvalidSizes) {
  const Context context;
  EXPECT_THROW(measure_gather(context, 0, kCeilingsSmall), Error);
  EXPECT_THROW(measure_gemm(context, DType::kF32, {.gemm_size = 0}), Error);
}

TEST(Ceilings, AreMeasuredForTheGivenTime) {
  const Context context;
  CeilingEffort effort = kCeilingsSmall;
  effort.seconds = 0.05;
  const auto start = std::chrono::steady_clock::now();
  measure_copy(context, effort);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_GE(took.count(), 0.05);
}

}  // namespace
}  // namespace emblem
