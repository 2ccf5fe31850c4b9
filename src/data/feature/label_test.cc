// Labels of several heads and weights of several columns.
#include <gmock/gmock.h>

#include "data/test_data.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Labels : public testing::Test {
 protected:
  Labels() {
    pipeline_.features.labels = {
        {"click"}, {"stars", LabelKind::kClass, 5}, {"seconds", LabelKind::kNumber}};
    pipeline_.features.weight_fields = {"w", "v"};
    options_.batch_size = 4;
  }

  LoaderOptions& options_for(const std::string& rows) {
    options_.input = folder_.write("rows.csv", "click,seconds,stars,a,w,v\n" + rows);
    return options_;
  }
  std::string error(const std::string& rows) { return loader_error(pipeline_, options_for(rows)); }

  TempFolder folder_;
  TestPipeline pipeline_{
      "data_config { with_header: true label_fields: 'click' } "
      "feature_configs { raw_feature { feature_name: 'a' } }"};
  LoaderOptions options_;
};

TEST_F(Labels, StandSideBySideInTheLayoutsOrder) {
  options_for("1,2.5,4,7,1,0.5\n0,-3,0,8,2,0\n");
  Loader loader(pipeline_.config.data_config(), pipeline_.features, options_);
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  EXPECT_THAT(batch.labels, ElementsAre(1, 4, 2.5f, 0, 0, -3));
  EXPECT_THAT(batch.sample_weights, ElementsAre(1, 0.5f, 2, 0));
}

TEST_F(Labels, OfAnotherKindAreBadRows) {
  EXPECT_THAT(error("2,1,1,0,1,1\n"),
              HasSubstr(":2: label click is 2 (binary cross-entropy expects a number from 0 to 1; "
                        "of two other values, set data_config.label_positive"));
  EXPECT_THAT(error("0,1,5,0,1,1\n"), HasSubstr(":2: label stars is 5 (expected a class, 0 to 4)"));
  EXPECT_THAT(error("0,1,1.5,0,1,1\n"), HasSubstr("label stars is 1.5"));
  EXPECT_THAT(error("0,1,-1,0,1,1\n"), HasSubstr("label stars is -1"));
  EXPECT_THAT(error("0,,1,0,1,1\n"),
              HasSubstr("label seconds is missing or NaN (expected a number)"));
  EXPECT_THAT(error("0,yes,1,0,1,1\n"), HasSubstr("column seconds: \"yes\" is not a number"));
  EXPECT_THAT(error("0,1,1,0,1,-1\n"), HasSubstr("sample weight v is -1 (expected a number that"));
  EXPECT_THAT(error("0,1,1,0,,1\n"), HasSubstr("sample weight w is missing or NaN"));
}

TEST_F(Labels, OfNamedClassesAreTheirPlaceInTheList) {
  pipeline_.features.labels[1].values = {"bad", "7", "-1", "good", "None"};
  options_for("1,0,good,7,1,1\n0,0, bad,7,1,1\n0,0,7.0,7,1,1\n0,0,None,7,1,1\n");
  Loader loader(pipeline_.config.data_config(), pipeline_.features, options_);
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  EXPECT_THAT(batch.labels, ElementsAre(1, 3, 0, 0, 0, 0, 0, 1, 0, 0, 4, 0));
  EXPECT_THAT(error("1,0,ugly,7,1,1\n"),
              HasSubstr("label stars is \"ugly\" (expected one of data_config.label_classes)"));
  EXPECT_THAT(error("1,0,,7,1,1\n"), HasSubstr("label stars is missing"));
}

TEST_F(Labels, OfTwoNamedValuesAreZeroAndOne) {
  pipeline_.features.labels[0].values = {"1", "2"};
  options_for("2,0,1,7,1,1\n1.0,0,1,7,1,1\n");
  Loader loader(pipeline_.config.data_config(), pipeline_.features, options_);
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  EXPECT_THAT(batch.labels, ElementsAre(1, 1, 0, 0, 1, 0));
}

TEST_F(Labels, OfBinaryTasksMayBeSoft) {
  options_for("0.3,1,1,0,1,1\n1,1,1,0,1,1\n");
  Loader loader(pipeline_.config.data_config(), pipeline_.features, options_);
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  EXPECT_THAT(batch.labels, ElementsAre(0.3f, 1, 1, 1, 1, 1));
  EXPECT_THAT(error("-0.1,1,1,0,1,1\n"), HasSubstr("label click is -0.1"));
  EXPECT_THAT(error("inf,1,1,0,1,1\n"), HasSubstr("label click is inf"));
}

TEST_F(Labels, MayBeMissingWhereOthersAreThere) {
  for (LabelSpec& label : pipeline_.features.labels) label.may_be_missing = true;
  options_for(",2.5,4,7,1,1\n1,NA,,8,1,1\n");
  Loader loader(pipeline_.config.data_config(), pipeline_.features, options_);
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  EXPECT_THAT(batch.labels,
              ElementsAre(testing::IsNan(), 4, 2.5f, 1, testing::IsNan(), testing::IsNan()));
  EXPECT_EQ(loader.statistics().counts.missing_labels, 3);
  EXPECT_THAT(error("0,1,1,0,1,1\n,,,0,1,1\n"), HasSubstr(":3: all labels are missing"));
}

TEST_F(Labels, ThatTheFileDoesNotHaveAreNamed) {
  pipeline_.features.labels.push_back({"clock"});
  EXPECT_THAT(error("1,2.5,4,7,1,0.5\n"),
              HasSubstr("rows.csv has no column \"clock\"; did you mean \"click\"?"));
}

TEST_F(Labels, AreNotReadForPrediction) {
  options_for("what,x,y,7,a,b\n");
  options_.label_check = LabelCheck::kIgnore;
  Loader loader(pipeline_.config.data_config(), pipeline_.features, options_);
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  EXPECT_TRUE(batch.labels.empty());
  EXPECT_TRUE(batch.sample_weights.empty());
}

// Whatever the order, the threads and the bad rows, a row keeps its labels.
TEST_F(Labels, StayWithTheirRows) {
  std::string rows;
  for (int i = 0; i < 200; ++i)
    rows += cat(i % 2, ',', 2 * i, ',', i % 7, ',', i, ',', i, ',', 3 * i, '\n');  // 5, 6 are bad
  options_for(rows);
  options_.batch_size = 7;
  options_.piece_bytes = 300;
  options_.max_bad_rows = 100;
  for (const int workers : {1, 3}) {
    for (const bool shuffle : {false, true}) {
      options_.workers = workers;
      options_.shuffle = shuffle;
      options_.shuffle_rows = shuffle ? 50 : 0;
      Loader loader(pipeline_.config.data_config(), pipeline_.features, options_);
      Batch batch;
      int64_t seen = 0;
      while (loader.next(batch)) {
        ASSERT_EQ(static_cast<int64_t>(batch.labels.size()), 3 * batch.rows);
        ASSERT_EQ(static_cast<int64_t>(batch.sample_weights.size()), 2 * batch.rows);
        for (int64_t row = 0; row < batch.rows; ++row, ++seen) {
          const auto i = static_cast<int>(batch.dense[row]);
          EXPECT_EQ(batch.labels[3 * row], i % 2);
          EXPECT_EQ(batch.labels[3 * row + 1], i % 7);
          EXPECT_EQ(batch.labels[3 * row + 2], 2 * i);
          EXPECT_EQ(batch.sample_weights[2 * row], i);
          EXPECT_EQ(batch.sample_weights[2 * row + 1], 3 * i);
        }
      }
      EXPECT_EQ(seen, 200 - 28 - 28);
    }
  }
}

TEST_F(Labels, OfBlankRowsAreZero) {
  options_for("1,2.5,4,7,1,0.5\n2,-3,0,8,2,0\n");
  options_.bad_rows = BadRowHandling::kBlank;
  options_.max_bad_rows = 1;
  Loader loader(pipeline_.config.data_config(), pipeline_.features, options_);
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  EXPECT_THAT(batch.labels, ElementsAre(1, 4, 2.5f, 0, 0, 0));
  EXPECT_THAT(batch.sample_weights, ElementsAre(1, 0.5f, 0, 0));
}

}  // namespace
}  // namespace emblem
