#include <gmock/gmock.h>

#include <cmath>

#include "core/math/random.h"
#include "metric/metric.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

double value_of(const std::unique_ptr<Metric>& metric, const MetricBatch& batch) {
  metric->add(batch);
  return metric->value();
}

const std::vector<float> kPredictions = {0.25f, 0.5f, 0.75f, 0.875f};
const std::vector<float> kMeanLabels = {0, 1, 1, 0};
const std::vector<float> kWeights = {1, 2, 0, 1};
const MetricBatch kPlain = {.predictions = kPredictions, .labels = kMeanLabels};
const MetricBatch kWeighted = {
    .predictions = kPredictions, .labels = kMeanLabels, .weights = kWeights};

TEST(MeanMetrics, AreMeansOverRows) {
  EXPECT_DOUBLE_EQ(value_of(make_log_loss(), kPlain),
                   -(std::log(0.75) + std::log(0.5) + std::log(0.75) + std::log(0.125)) / 4);
  EXPECT_DOUBLE_EQ(value_of(make_mean_absolute_error(), kPlain), (0.25 + 0.5 + 0.25 + 0.875) / 4);
  EXPECT_DOUBLE_EQ(value_of(make_mean_squared_error(), kPlain),
                   (0.0625 + 0.25 + 0.0625 + 0.765625) / 4);
  EXPECT_DOUBLE_EQ(value_of(make_mean_label(), kPlain), 0.5);
  EXPECT_DOUBLE_EQ(value_of(make_mean_prediction(), kPlain), 0.59375);
  EXPECT_DOUBLE_EQ(value_of(make_calibration(), kPlain), 1.1875);
}

TEST(MeanMetrics, WeighRows) {
  EXPECT_DOUBLE_EQ(value_of(make_log_loss(), kWeighted),
                   -(std::log(0.75) + 2 * std::log(0.5) + std::log(0.125)) / 4);
  EXPECT_DOUBLE_EQ(value_of(make_mean_absolute_error(), kWeighted), (0.25 + 2 * 0.5 + 0.875) / 4);
  EXPECT_DOUBLE_EQ(value_of(make_accuracy(0.4f), kWeighted), 3.0 / 4);
  EXPECT_DOUBLE_EQ(value_of(make_calibration(), kWeighted), (0.25 + 2 * 0.5 + 0.875) / 2);
}

TEST(MeanMetrics, AreUndefinedWithoutRows) {
  std::vector<std::unique_ptr<Metric>> metrics;
  metrics.push_back(make_log_loss());
  metrics.push_back(make_mean_absolute_error());
  metrics.push_back(make_mean_squared_error());
  metrics.push_back(make_mean_label());
  metrics.push_back(make_mean_prediction());
  metrics.push_back(make_calibration());
  for (const auto& metric : metrics) {
    EXPECT_TRUE(std::isnan(metric->value())) << metric->name();
  }
}

TEST(MeanMetrics, MergedPartsEqualTheWhole) {
  const std::vector<std::function<std::unique_ptr<Metric>()>> makers = {
      [] { return make_log_loss(); },           [] { return make_mean_absolute_error(); },
      [] { return make_mean_squared_error(); }, [] { return make_mean_label(); },
      [] { return make_mean_prediction(); },    [] { return make_calibration(); },
      [] { return make_accuracy(0.5f); },       [] { return make_normalized_entropy(1e-12); }};
  for (const auto& make : makers) {
    const auto left = make(), right = make(), whole = make();
    left->add({.predictions = std::span(kPredictions).first(3),
               .labels = std::span(kMeanLabels).first(3)});
    right->add(
        {.predictions = std::span(kPredictions).last(1), .labels = std::span(kMeanLabels).last(1)});
    left->merge(*right);
    EXPECT_DOUBLE_EQ(left->value(), value_of(whole, kPlain)) << whole->name();
  }
}

TEST(LogLoss, IsExactFromLogitsWhereProbabilitiesRoundToOne) {
  const std::vector<float> logits = {40, -60, 40}, p = {1, 0, 1}, labels = {1, 0, 0};
  const double expected = (std::log1p(std::exp(-40.0)) + std::log1p(std::exp(-60.0)) + 40) / 3;
  EXPECT_DOUBLE_EQ(
      value_of(make_log_loss(), {.predictions = p, .labels = labels, .logits = logits}), expected);
}

TEST(LogLoss, FromLogitsAgreesWithProbabilities) {
  Random random{4};
  std::vector<float> logits, p, labels;
  for (int i = 0; i < 1000; ++i) {
    logits.push_back(3 * random.normal());
    p.push_back(static_cast<float>(1 / (1 + std::exp(-static_cast<double>(logits.back())))));
    labels.push_back(random.uniform());
  }
  EXPECT_NEAR(value_of(make_log_loss(), {.predictions = p, .labels = labels, .logits = logits}),
              value_of(make_log_loss(), {.predictions = p, .labels = labels}), 1e-6);
}

TEST(LogLoss, KeepsCertainProbabilitiesFinite) {
  const std::vector<float> p = {1, 0}, labels = {0, 1};
  EXPECT_NEAR(value_of(make_log_loss(), {.predictions = p, .labels = labels}), -std::log(1e-7),
              1e-9);
}

TEST(LogLoss, RejectsWhatIsNoProbability) {
  const std::vector<float> two = {2}, one = {1};
  EXPECT_THAT([&] { make_log_loss()->add({.predictions = two, .labels = one}); },
              ThrowsMessage<Error>(HasSubstr("row 0 of the batch has prediction 2")));
  EXPECT_THAT([&] { make_log_loss()->add({.predictions = one, .labels = two}); },
              ThrowsMessage<Error>(HasSubstr("row 0 of the batch has label 2")));
}

TEST(Accuracy, CountsPredictionsAboveTheThreshold) {
  EXPECT_EQ(value_of(make_accuracy(0.5f), kPlain), 0.5);  // 0.5 itself is not above
  EXPECT_EQ(value_of(make_accuracy(0.499f), kPlain), 0.75);
}

TEST(Accuracy, OfASoftLabelIsItsShare) {
  const std::vector<float> p = {0.9f, 0.1f}, labels = {0.75f, 0.5f};
  EXPECT_EQ(value_of(make_accuracy(0.5f), {.predictions = p, .labels = labels}), 0.625);
}

TEST(NormalizedEntropy, IsOneForTheBaseRate) {
  const std::vector<float> p(4, 0.25f), labels = {0, 0, 1, 0};
  EXPECT_DOUBLE_EQ(value_of(make_normalized_entropy(1e-12), {.predictions = p, .labels = labels}),
                   1.0);
}

TEST(NormalizedEntropy, IsTheRatioOfTwoLogLosses) {
  EXPECT_DOUBLE_EQ(value_of(make_normalized_entropy(1e-12), kPlain),
                   value_of(make_log_loss(), kPlain) / std::log(2.0));
}

TEST(NormalizedEntropy, LimitsTheProbabilitiesOfLogitsByEta) {
  const std::vector<float> logits = {-20, 20, 1, -1}, labels = {1, 1, 0, 0};
  const std::vector<float> p = {0.25f, 0.75f, 0.7310586f, 0.26894143f};
  EXPECT_NEAR(value_of(make_normalized_entropy(0.25),
                       {.predictions = p, .labels = labels, .logits = logits}),
              value_of(make_normalized_entropy(0.25), {.predictions = p, .labels = labels}), 1e-6);
}

TEST(NormalizedEntropy, IsUndefinedWhenAllLabelsAreEqual) {
  const std::vector<float> p = {0.25f, 0.5f}, labels = {1, 1};
  EXPECT_TRUE(
      std::isnan(value_of(make_normalized_entropy(1e-12), {.predictions = p, .labels = labels})));
}

TEST(Calibration, IsUndefinedWithoutPositives) {
  const std::vector<float> p = {0.25f, 0.5f}, labels = {0, 0};
  EXPECT_TRUE(std::isnan(value_of(make_calibration(), {.predictions = p, .labels = labels})));
}

}  // namespace
}  // namespace emblem
