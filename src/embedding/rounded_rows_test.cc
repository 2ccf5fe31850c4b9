// Rows in 16 bits keep updates that are smaller than their precision.
#include <gmock/gmock.h>

#include "embedding/tables_test.h"

namespace emblem {
namespace {

class RoundedRowsTest : public DeviceTest {
 protected:
  struct Rows {
    Content first, last;

    double mean_change() const {
      double sum = 0;
      for (size_t i = 0; i < last.weights.size(); ++i) sum += last.weights[i] - first.weights[i];
      return sum / static_cast<double>(last.weights.size());
    }
  };

  // Weights near 1, before and after 1000 steps of -1e-5 each.
  Rows trained(DType dtype, Rounding rounding, const Rule& rule = Sgd{}) {
    const auto table =
        make_table(context_, {.name = "t",
                              .dim = 8,
                              .dtype = dtype,
                              .capacity = 16,
                              .initializer = {Initializer::Kind::kUniform, 0.9f, 1.1f},
                              .rule = rule,
                              .rounding = rounding});
    Rows rows{content_of(context_, *table), {}};
    TestLookup lookup(context_, {{table.get()}}, Sums::kDeterministic);
    Bags all;
    for (int64_t key = 0; key < 16; ++key) all.keys.push_back(key);
    for (int64_t step = 1; step <= 1000; ++step) {
      lookup.forward({all}, 16);
      lookup.backward(std::vector<float>(16 * 8, 1.0f), 1.0f, step, 1e-5f);
    }
    rows.last = content_of(context_, *table);
    return rows;
  }
};
EMBLEM_TEST_ON_EVERY_DEVICE(RoundedRowsTest);

TEST_P(RoundedRowsTest, SmallUpdatesAddUpWhenTheyAreRoundedStochastically) {
  for (const DType dtype : {DType::kF16, DType::kBf16}) {
    const Rows nearest = trained(dtype, Rounding::kToNearest);
    EXPECT_EQ(nearest.first.weights, nearest.last.weights) << name_of(dtype);
    EXPECT_NEAR(trained(dtype, Rounding::kStochastic).mean_change(), -0.01, 0.002)
        << name_of(dtype);
  }
  EXPECT_NEAR(trained(DType::kF32, Rounding::kStochastic).mean_change(), -0.01, 1e-4);
}

TEST_P(RoundedRowsTest, RepeatedRunsGiveTheSameRows) {
  for (const Rule& rule : {Rule(Sgd{}), Rule(RowWiseAdaGrad{}), Rule(PartialRowWiseAdam{})})
    EXPECT_EQ(trained(DType::kF16, Rounding::kStochastic, rule).last,
              trained(DType::kF16, Rounding::kStochastic, rule).last);
}

}  // namespace
}  // namespace emblem
