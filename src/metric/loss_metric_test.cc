#include <gmock/gmock.h>

#include <cmath>

#include "metric/metric.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

double loss_value(std::unique_ptr<Metric> metric, const MetricBatch& batch) {
  metric->add(batch);
  return metric->value();
}

const std::vector<float> kLogits = {0.5f, -1.0f, 2.0f};
const std::vector<float> kProbabilities = {0.62245935f, 0.26894143f, 0.88079709f};
const std::vector<float> kLabels = {1, 0, 0};
const MetricBatch kBinary = {.predictions = kProbabilities, .labels = kLabels, .logits = kLogits};

TEST(LossMetrics, BinaryCrossEntropyOfSmoothedLabels) {
  // -ln p for 1, -ln(1 - p) for 0.
  const double plain =
      (std::log1p(std::exp(-0.5)) + std::log1p(std::exp(-1.0)) + std::log1p(std::exp(2.0))) / 3;
  EXPECT_NEAR(loss_value(make_loss_metric(losses::BinaryCrossEntropy{0}, 1, "l"), kBinary), plain,
              1e-12);
  EXPECT_NEAR(loss_value(make_loss_metric(losses::BinaryCrossEntropy{0}, 2.5, "l"), kBinary),
              2.5 * plain, 1e-12);
  // Labels 0.9, 0.1, 0.1.
  const double moved = (0.1 * 0.5 + 0.1 * 1.0 - 0.1 * 2.0) / 3;
  EXPECT_NEAR(loss_value(make_loss_metric(losses::BinaryCrossEntropy{0.2f}, 1, "l"), kBinary),
              plain + moved, 1e-7);
}

TEST(LossMetrics, AreWeightedByRow) {
  const std::vector<float> weights = {0, 2, 2};
  MetricBatch batch = kBinary;
  batch.weights = weights;
  const double expected = (std::log1p(std::exp(-1.0)) + std::log1p(std::exp(2.0))) / 2;
  EXPECT_NEAR(loss_value(make_loss_metric(losses::BinaryCrossEntropy{0}, 1, "l"), batch), expected,
              1e-12);
}

TEST(LossMetrics, FocalLossWeighsRowsByTheirError) {
  double expected = 0;
  for (size_t i = 0; i < 3; ++i) {
    const double p = 1 / (1 + std::exp(-static_cast<double>(kLogits[i])));
    const double y = kLabels[i];
    const double weight = 0.25 * y * (1 - p) * (1 - p) + 0.75 * (1 - y) * p * p;
    expected -= weight * (y * std::log(p) + (1 - y) * std::log(1 - p)) / 3;
  }
  EXPECT_NEAR(loss_value(make_loss_metric(losses::BinaryFocalLoss{2, 0.25f}, 1, "l"), kBinary),
              expected, 1e-12);
}

TEST(LossMetrics, L2LossIsTheMeanSquaredError) {
  const std::vector<float> predictions = {1.5f, -2.0f}, labels = {1.0f, 1.0f};
  EXPECT_EQ(loss_value(make_loss_metric(losses::L2Loss{}, 2, "l"),
                       {.predictions = predictions, .labels = labels}),
            2 * (0.25 + 9.0) / 2);
}

const std::vector<float> kTwoClasses = {0.1f, 0.4f, -0.5f, 0.7f, 0.2f, -0.3f, 1.0f, 0.9f};
const std::vector<float> kTwoLabels = {1, 0, 0, 1};
const std::vector<float> kOfClassOne = {0, 0, 0, 0};

MetricBatch two_classes() {
  return {
      .predictions = kOfClassOne, .labels = kTwoLabels, .classes = 2, .class_logits = kTwoClasses};
}

double log_softmax(size_t row, size_t of) {
  const double a = kTwoClasses[2 * row], b = kTwoClasses[2 * row + 1];
  return kTwoClasses[2 * row + of] - std::log(std::exp(a) + std::exp(b));
}

TEST(LossMetrics, SoftmaxCrossEntropySpreadsSmoothingOverClasses) {
  double plain = 0, smooth = 0;
  for (size_t row = 0; row < 4; ++row) {
    const auto label = static_cast<size_t>(kTwoLabels[row]);
    plain -= log_softmax(row, label) / 4;
    smooth -=
        (0.9 * log_softmax(row, label) + 0.05 * log_softmax(row, 0) + 0.05 * log_softmax(row, 1)) /
        4;
  }
  EXPECT_NEAR(loss_value(make_loss_metric(losses::SoftmaxCrossEntropy{0}, 1, "l"), two_classes()),
              plain, 1e-7);
  EXPECT_NEAR(
      loss_value(make_loss_metric(losses::SoftmaxCrossEntropy{0.1f}, 1, "l"), two_classes()),
      smooth, 1e-7);
}

TEST(LossMetrics, JrcLossRanksRowsWithinTheirSession) {
  const std::vector<int64_t> sessions = {5, 5, 9, 5};
  MetricBatch batch = two_classes();
  batch.groups = sessions;
  double expected = 0;
  for (size_t i = 0; i < 4; ++i) {
    const auto label = static_cast<size_t>(kTwoLabels[i]);
    const double own = std::exp(kTwoClasses[2 * i + label]);
    double all = own;
    for (size_t j = 0; j < 4; ++j) {
      if (sessions[i] == sessions[j] && kTwoLabels[i] != kTwoLabels[j])
        all += std::exp(kTwoClasses[2 * j + label]);
    }
    expected -= (0.3 * log_softmax(i, label) + 0.7 * std::log(own / all)) / 4;
  }
  EXPECT_NEAR(loss_value(make_loss_metric(losses::JrcLoss{0.3f}, 1, "l"), batch), expected, 1e-7);
  EXPECT_THAT([] { make_loss_metric(losses::JrcLoss{0.3f}, 1, "l")->add(two_classes()); },
              ThrowsMessage<Error>(HasSubstr("needs a group key per row")));
}

TEST(LossMetrics, LambdaRankLossIsThatOfPairsOfASession) {
  const float scores[] = {0.5f, 1.0f, 7.0f, -1.0f}, labels[] = {2, 0, 1, 1};
  const std::vector<int64_t> sessions = {5, 5, 9, 5};
  const MetricBatch batch{.predictions = scores, .labels = labels, .groups = sessions};
  const auto softplus = [](double x) { return std::log1p(std::exp(x)); };
  const double discounts[] = {1 / std::log2(3.0), 1, 0, 0.5};  // by score
  const double best = 2 + 1 / std::log2(3.0);
  const double expected = (2 * (discounts[1] - discounts[0]) * softplus(1.0 - 0.5) +
                           1 * (discounts[0] - discounts[3]) * softplus(-1.0 - 0.5) +
                           1 * (discounts[1] - discounts[3]) * softplus(1.0 + 1.0)) /
                          best / 4;
  EXPECT_NEAR(loss_value(make_loss_metric(losses::LambdaRankLoss{}, 1, "l"), batch), expected,
              1e-7);
}

TEST(LossMetrics, OfSeveralBatchesIsThatOfAllRows) {
  auto whole = make_loss_metric(losses::BinaryCrossEntropy{0}, 1, "l"),
       parts = make_loss_metric(losses::BinaryCrossEntropy{0}, 1, "l");
  whole->add(kBinary);
  for (size_t row = 0; row < 3; ++row) {
    auto part = make_loss_metric(losses::BinaryCrossEntropy{0}, 1, "l");
    part->add({.predictions = kBinary.predictions.subspan(row, 1),
               .labels = kBinary.labels.subspan(row, 1),
               .logits = kBinary.logits.subspan(row, 1)});
    parts->merge(*part);
  }
  EXPECT_NEAR(parts->value(), whole->value(), 1e-15);
}

}  // namespace
}  // namespace emblem
