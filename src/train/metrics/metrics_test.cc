#include "train/metrics/metrics.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

config::ModelConfig model_with(const std::string& metrics) {
  config::ModelConfig model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(metrics, &model));
  return model;
}

std::vector<std::string> names_for(const std::string& text) {
  std::vector<std::string> names;
  for (const auto& metric : make_metrics(model_with(text))) names.push_back(metric->name());
  return names;
}

TEST(Metrics, DefaultToExactAucAndLogLoss) {
  auto metrics = make_metrics({});
  ASSERT_EQ(metrics.size(), 2u);
  const std::vector<float> p = {0.501f, 0.502f}, labels = {0, 1};
  for (auto& metric : metrics) metric->add({.predictions = p, .labels = labels});
  EXPECT_EQ(metrics[0]->name(), "auc");
  EXPECT_EQ(metrics[0]->value(), 1.0);  // 200 thresholds would put both into one bin
  EXPECT_EQ(metrics[1]->name(), "log_loss");
}

TEST(Metrics, AreNamedAsInTheConfiguration) {
  EXPECT_THAT(
      names_for(
          "metrics { auc {} } metrics { log_loss {} } metrics { normalized_entropy {} } "
          "metrics { accuracy {} } metrics { mean_absolute_error {} } "
          "metrics { mean_squared_error {} } metrics { grouped_auc { grouping_key: 'user' } } "
          "metrics { calibration {} } metrics { mean_label {} } metrics { mean_prediction {} }"),
      ElementsAre("auc", "log_loss", "normalized_entropy", "accuracy", "mean_absolute_error",
                  "mean_squared_error", "grouped_auc", "calibration", "mean_label",
                  "mean_prediction"));
}

TEST(Metrics, ASecondAucIsNamedByItsThresholds) {
  EXPECT_THAT(names_for("metrics { auc {} } metrics { auc { thresholds: 8000 } } metrics { auc { "
                        "thresholds: 0 } }"),
              ElementsAre("auc", "auc_8000", "auc_exact"));
}

TEST(Metrics, RejectOneConfiguredTwice) {
  EXPECT_THAT([] { make_metrics(model_with("metrics { log_loss {} } metrics { log_loss {} }")); },
              ThrowsMessage<Error>(HasSubstr("log_loss is configured twice")));
}

TEST(Metrics, RejectAnEntryThatNamesNone) {
  EXPECT_THAT([] { make_metrics(model_with("metrics {}")); },
              ThrowsMessage<Error>(HasSubstr("names no metric; expected one of auc")));
}

TEST(Metrics, RejectRecallForModelsThatScoreSingleRows) {
  EXPECT_THAT([] { make_metrics(model_with("metrics { recall_at_k {} }")); },
              ThrowsMessage<Error>(HasSubstr("this model scores single rows")));
}

TEST(Metrics, TellWhichFeatureGroupsRows) {
  EXPECT_EQ(grouping_key(model_with("metrics { auc {} }")), std::nullopt);
  EXPECT_EQ(grouping_key(model_with("metrics { grouped_auc { grouping_key: 'user' } }")), "user");
  EXPECT_THAT([] { grouping_key(model_with("metrics { grouped_auc {} }")); },
              ThrowsMessage<Error>(HasSubstr("has no grouping_key")));
  EXPECT_THAT(
      [] {
        make_metrics(
            model_with("metrics { grouped_auc { grouping_key: 'a' } } "
                       "metrics { grouped_auc { grouping_key: 'b' } }"));
      },
      ThrowsMessage<Error>(HasSubstr("group by a and by b")));
}

TEST(Metrics, RejectSpansOfDifferentLengths) {
  const auto metric = make_log_loss();
  const std::vector<float> two = {0.5f, 0.5f}, three = {1, 0, 1};
  EXPECT_THAT([&] { metric->add({.predictions = two, .labels = three}); },
              ThrowsMessage<Error>(HasSubstr("3 labels for 2 predictions")));
  EXPECT_THAT([&] { metric->add({.predictions = two, .labels = two, .weights = three}); },
              ThrowsMessage<Error>(HasSubstr("3 weights for 2 predictions")));
}

TEST(Metrics, RejectNumbersThatAreNotFiniteAndAddNothing) {
  const auto metric = make_mean_prediction();
  const std::vector<float> good = {0.25f, 0.75f};
  metric->add({.predictions = good, .labels = good});
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    const std::vector<float> values = {0.5f, bad};
    EXPECT_THAT([&] { metric->add({.predictions = values, .labels = good}); },
                ThrowsMessage<Error>(HasSubstr("the prediction of row 1 of the batch is")));
    EXPECT_THAT([&] { metric->add({.predictions = good, .labels = values}); },
                ThrowsMessage<Error>(HasSubstr("the label of row 1")));
    EXPECT_THAT([&] { metric->add({.predictions = good, .labels = good, .logits = values}); },
                ThrowsMessage<Error>(HasSubstr("the logit of row 1")));
    EXPECT_THAT([&] { metric->add({.predictions = good, .labels = good, .weights = values}); },
                ThrowsMessage<Error>(HasSubstr("the weight of row 1")));
  }
  EXPECT_EQ(metric->value(), 0.5);
}

TEST(Metrics, RejectNegativeWeights) {
  const auto metric = make_mean_prediction();
  const std::vector<float> one = {1}, minus = {-1};
  EXPECT_THAT([&] { metric->add({.predictions = one, .labels = one, .weights = minus}); },
              ThrowsMessage<Error>(HasSubstr("must not be negative")));
}

TEST(Metrics, RefuseToMergeDifferentKinds) {
  EXPECT_THAT([] { make_exact_auc()->merge(*make_log_loss()); },
              ThrowsMessage<Error>(HasSubstr("cannot merge metric log_loss into auc")));
}

}  // namespace
}  // namespace emblem
