#include "train/report/loss_watch.h"

#include <gmock/gmock.h>

#include "config/load/load.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class LossWatchTest : public testing::Test {
 protected:
  // Two rows of a, b (two columns) and c.
  static Batch batch(float a, float b, float c) {
    Batch batch;
    batch.rows = 2;
    batch.dense.assign({a, b, -b, c, -a, b, -b, c});
    return batch;
  }

  const FeatureLayout layout_ = layout_of(parse_pipeline(
      R"(feature_configs { raw_feature { feature_name: "a" } }
         feature_configs { id_feature { feature_name: "id" num_buckets: 3 embedding_dim: 4 } }
         feature_configs { raw_feature { feature_name: "b" value_dim: 2 } }
         feature_configs { raw_feature { feature_name: "c" } })",
      "test"));
  LossWatch watch_{layout_, LossWatch::Scale::kClasses};
};

TEST_F(LossWatchTest, WarnsOnceWhenTheLossIsFarAboveItsFirstValue) {
  const Batch usual = batch(1, 2, 3);
  watch_.begin_step(usual);
  EXPECT_EQ(watch_.end_step(1, 0.7), std::nullopt);
  EXPECT_EQ(watch_.end_step(2, 690), std::nullopt);
  const auto warning = watch_.end_step(3, 701);
  ASSERT_TRUE(warning);
  EXPECT_EQ(*warning, "the loss is 701 at step 3 (first: 0.7); lower lr, or add grad_clipping");
  EXPECT_EQ(watch_.end_step(4, 1e6), std::nullopt);
}

TEST_F(LossWatchTest, WarnsAtAFirstLossThatIsHugeAlready) {
  const Batch large = batch(1, 2e6f, 3000);
  watch_.begin_step(large);
  const auto warning = watch_.end_step(1, 1e11);
  ASSERT_TRUE(warning);
  EXPECT_THAT(*warning, AllOf(HasSubstr("the loss is 1e+11 at step 1"),
                              HasSubstr("are b (2e+06), c (3e+03): give them a normalizer"),
                              Not(HasSubstr("a ("))));
}

TEST_F(LossWatchTest, LossesOfNumbersAreComparedWithTheFirst) {
  LossWatch numbers(layout_, LossWatch::Scale::kLabels);
  EXPECT_EQ(numbers.end_step(1, 2.46e4), std::nullopt);
  EXPECT_EQ(numbers.end_step(2, 1.9e4), std::nullopt);
  EXPECT_TRUE(numbers.end_step(3, 2.5e7));
}

TEST_F(LossWatchTest, WarnsOfARunWithoutAnyLoss) {
  FeatureLayout weighted = layout_;
  weighted.weight_fields = {"w"};
  LossWatch watch(weighted, LossWatch::Scale::kClasses);
  EXPECT_EQ(watch.end_run(), std::nullopt);  // no step
  watch.end_step(1, 0.0);
  EXPECT_EQ(watch.end_run(),
            "the loss was 0 at every step: the model learned nothing; are all sample weights 0? "
            "data_config.sample_weight_fields: \"w\"");
  watch.end_step(2, 0.5);
  EXPECT_EQ(watch.end_run(), std::nullopt);
}

TEST_F(LossWatchTest, ASmallFirstLossDoesNotMakeAnOrdinaryOneHuge) {
  watch_.end_step(1, 1e-6);
  EXPECT_EQ(watch_.end_step(2, 0.7), std::nullopt);
}

TEST_F(LossWatchTest, AdvisesFromTheFirstBatchesAndTheOneAtHand) {
  const Batch first = batch(1000, 0, 0), later = batch(0, 0, 2000);
  watch_.begin_step(first);
  for (int i = 0; i < 50; ++i) watch_.begin_step(later);
  EXPECT_THAT(watch_.advice(), HasSubstr("are c (2e+03), a (10"));
}

TEST(LossWatchOfSequences, MeasuresNumbersWhereTheyAre) {
  const FeatureLayout layout = layout_of(parse_pipeline(
      R"(data_config { fg_mode: FG_DAG }
         feature_configs { sequence_feature { sequence_name: "s"
           features { raw_feature { feature_name: "small" } }
           features { raw_feature { feature_name: "large" } } } })",
      "test"));
  Batch batch;  // no numbers outside of the sequence; three elements of two rows
  batch.rows = 2;
  batch.resize_sequences(1);
  batch.sequences[0].offsets.assign({0, 1, 3});
  batch.sequences[0].numbers.assign({1, 3000, 1, -6000, 1, 9000});
  LossWatch watch(layout, LossWatch::Scale::kClasses);
  watch.begin_step(batch);
  EXPECT_THAT(watch.advice(),
              AllOf(HasSubstr("magnitude are s__large (6e+03): give"), Not(HasSubstr("small"))));
}

}  // namespace
}  // namespace emblem
