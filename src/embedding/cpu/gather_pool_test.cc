#include "embedding/cpu/gather_pool.h"

#include <gmock/gmock.h>

#include "core/device/device_test.h"
#include "embedding/cpu/rows_on_device_test.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

class GatherPoolTest : public DeviceTest {
 protected:
  struct Call {
    std::vector<int64_t> keys;
    std::vector<uint32_t> rows;  // empty: keys are rows
    std::vector<int32_t> offsets;
    std::vector<float> weights;
    Pooling pooling = Pooling::kSum;
  };
  // Row r of ten is {r, 10 r}; absent keys read as 0.5. The output has a column before and one
  // after.
  std::vector<float> pool(const Call& call, DType dtype = DType::kF32) {
    RowsOnDevice rows(context_, 10, 2, dtype, 1);
    for (int r = 0; r < 10; ++r) rows.set(r, {{float(r), float(10 * r)}, {-1.0f}});
    const auto keys = Buffer<int64_t>::from(context_, call.keys);
    const auto numbers = Buffer<uint32_t>::from(context_, call.rows);
    const auto offsets = Buffer<int32_t>::from(context_, call.offsets);
    const auto weights = Buffer<float>::from(context_, call.weights);
    const auto bags =
        static_cast<int64_t>(call.offsets.empty() ? call.keys.size() : call.offsets.size() - 1);
    auto out = Buffer<float>::from(context_, std::vector<float>(bags * 4, 7.0f));
    gather_pool(context_, {.rows = rows.ref(),
                           .keys = keys.data(),
                           .row_numbers = call.rows.empty() ? nullptr : numbers.data(),
                           .offsets = call.offsets.empty() ? nullptr : offsets.data(),
                           .weights = call.weights.empty() ? nullptr : weights.data(),
                           .bags = bags,
                           .pooling = call.pooling,
                           .absent = {Initializer::Kind::kConstant, 0.5f, 0.0f},
                           .out = out.data() + 1,
                           .out_stride = 4});
    std::vector<float> columns;
    const auto all = out.to_host(context_);
    for (size_t i = 0; i < all.size(); ++i) {
      if (i % 4 == 0 || i % 4 == 3)
        EXPECT_EQ(all[i], 7.0f) << "a neighbouring column was written";
      else
        columns.push_back(all[i]);
    }
    return columns;
  }
};

TEST_P(GatherPoolTest, CopiesOneRowABag) {
  EXPECT_THAT(pool({.keys = {3, 9, 3}}), ElementsAre(3, 30, 9, 90, 3, 30));
}

TEST_P(GatherPoolTest, WidensSixteenBitRows) {
  for (const DType dtype : {DType::kF16, DType::kBf16}) {
    EXPECT_THAT(pool({.keys = {7, 0}}, dtype), ElementsAre(7, 70, 0, 0));
    EXPECT_THAT(pool({.keys = {7, 1}, .offsets = {0, 2}}, dtype), ElementsAre(8, 80));
  }
}

TEST_P(GatherPoolTest, SumsBagsAndLeavesEmptyOnesZero) {
  EXPECT_THAT(pool({.keys = {1, 2, 4}, .offsets = {0, 2, 2, 3}}), ElementsAre(3, 30, 0, 0, 4, 40));
}

TEST_P(GatherPoolTest, WeighsKeys) {
  EXPECT_THAT(pool({.keys = {1, 2, 4}, .offsets = {0, 2, 3}, .weights = {2, 0.5, -1}}),
              ElementsAre(3, 30, -4, -40));
  EXPECT_THAT(pool({.keys = {1, 2}, .weights = {3, 0}}), ElementsAre(3, 30, 0, 0));
}

TEST_P(GatherPoolTest, MeanDividesByTheNumberOfKeysOrTheSumOfWeights) {
  const Call plain{.keys = {1, 3, 5}, .offsets = {0, 2, 2, 3}, .pooling = Pooling::kMean};
  EXPECT_THAT(pool(plain), ElementsAre(2, 20, 0, 0, 5, 50));
  const Call weighted{
      .keys = {1, 3, 5}, .offsets = {0, 2, 3}, .weights = {3, 1, 0}, .pooling = Pooling::kMean};
  EXPECT_THAT(pool(weighted), ElementsAre(1.5, 15, 0, 0));
}

TEST_P(GatherPoolTest, AKeyWithoutARowReadsAsItsInitialValue) {
  EXPECT_THAT(pool({.keys = {100, -5}, .rows = {4, kNoRow}}), ElementsAre(4, 40, 0.5, 0.5));
  EXPECT_THAT(pool({.keys = {100, -5}, .rows = {4, kNoRow}, .offsets = {0, 2}, .weights = {1, 2}}),
              Pointwise(FloatNear(1e-6), {5.0f, 41.0f}));
}

TEST_P(GatherPoolTest, NoBagsAreNoError) { EXPECT_TRUE(pool({}).empty()); }

TEST_P(GatherPoolTest, RefusesAnOutputTooNarrow) {
  const RowsOnDevice rows(context_, 1, 8, DType::kF32, 0);
  EXPECT_THAT([&] { gather_pool(context_, {.rows = rows.ref(), .bags = 1, .out_stride = 4}); },
              testing::ThrowsMessage<Error>(
                  testing::HasSubstr("4 floats apart in the output, but a row has 8")));
}

INSTANTIATE_TEST_SUITE_P(, GatherPoolTest, testing::Values(Device::kCpu), device_name);

}  // namespace
}  // namespace emblem
