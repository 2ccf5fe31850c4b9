// Losses in which rows depend on each other, and those that follow another node, against their
// definitions in double precision.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>

#include "core/device/device_test.h"
#include "core/math/random.h"
#include "nn/graph.h"

namespace emblem {
namespace {

using testing::Each;

class BatchLossTest : public DeviceTest {};
EMBLEM_TEST_ON_EVERY_DEVICE(BatchLossTest);

using Doubles = std::vector<double>;

std::vector<float> normals(int64_t count, uint64_t stream, float scale) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = scale * random_normal(3, stream, i);
  return values;
}

// Compares gradients with differences of `loss` as a function of x.
void expect_gradients(const std::vector<float>& x, const std::vector<float>& gradients,
                      const std::function<double(const Doubles&)>& loss, double tolerance = 1e-6) {
  Doubles point(x.begin(), x.end());
  for (size_t i = 0; i < x.size(); ++i) {
    point[i] = x[i] + 1e-5;
    const double above = loss(point);
    point[i] = x[i] - 1e-5;
    const double below = loss(point);
    point[i] = x[i];
    ASSERT_NEAR(gradients[i], (above - below) / 2e-5, tolerance) << i;
  }
}

struct Jrc {
  Graph graph{1};
  Node logits, sessions;
  Graph::Target target;
  std::vector<float> x, labels, weights;
  std::vector<int64_t> ids;
  float alpha;

  Jrc(const Context& context, int64_t rows, int64_t session_count, float alpha,
      DType precision = DType::kF32)
      : alpha(alpha) {
    logits = graph.trained_input("logits", 2);
    sessions = graph.id_input("sessions");
    target.labels = graph.input("labels", 1);
    target.weights = graph.input("weights", 1);
    target.factor = 2.0f;
    graph.minimize(losses::JrcLoss{alpha}, logits, target, sessions);
    graph.prepare(context, rows + 9, precision);
    x = normals(2 * rows, 1, 2.0f);
    for (int64_t r = 0; r < rows; ++r) {
      labels.push_back(random_bits(1, 2, r) % 3 == 0);
      weights.push_back(random_uniform(1, 3, r));
      // Sessions may be any number, of either sign.
      ids.push_back(static_cast<int64_t>(random_bits(1, 4, random_bits(1, 5, r) % session_count)));
    }
  }
  void run(const Context& context, Phase phase = Phase::kTrain) {
    graph.set_rows(static_cast<int64_t>(ids.size()));
    to_device(context, x, graph.value(logits));
    to_device(context, labels, graph.value(target.labels));
    to_device(context, weights, graph.value(target.weights));
    to_device(context, ids, graph.ids(sessions));
    graph.forward(context, phase, 0);
    if (phase == Phase::kTrain) graph.backward(context);
  }
  // As the definition says, pair by pair.
  double formula(const Doubles& x) const {
    double sum = 0.0, total = 0.0;
    for (size_t i = 0; i < ids.size(); ++i) {
      const size_t own = labels[i] == 1.0f ? 1 : 0;
      const double e0 = std::exp(x[2 * i]), e1 = std::exp(x[2 * i + 1]);
      const double ce = -std::log((own == 1 ? e1 : e0) / (e0 + e1));
      double among = std::exp(x[2 * i + own]);
      for (size_t j = 0; j < ids.size(); ++j) {
        if (ids[j] == ids[i] && labels[j] != labels[i]) among += std::exp(x[2 * j + own]);
      }
      const double ge = -std::log(std::exp(x[2 * i + own]) / among);
      sum += weights[i] * (alpha * ce + (1.0 - alpha) * ge);
      total += weights[i];
    }
    return target.factor * sum / total;
  }
  void expect(const Context& context, double tolerance = 2e-6) {
    run(context);
    EXPECT_NEAR(graph.loss(context), formula(Doubles(x.begin(), x.end())), tolerance);
    expect_gradients(
        x, to_host(context, graph.gradient(logits)), [&](const Doubles& at) { return formula(at); },
        tolerance);
  }
};

TEST_P(BatchLossTest, JrcRanksWithinSessions) {
  for (const auto& [rows, sessions] : {std::pair<int64_t, int64_t>(60, 7), {100, 1}, {40, 400}})
    Jrc(context_, rows, sessions, 0.3f).expect(context_);
  Jrc(context_, 50, 5, 0.0f).expect(context_);
  Jrc(context_, 50, 5, 1.0f).expect(context_);
}

TEST_P(BatchLossTest, JrcOfALongSessionAndOfAnyOrderOfRows) {
  Jrc(context_, 250, 2, 0.5f).expect(context_);
}

TEST_P(BatchLossTest, JrcOfOneRowAndOfBatchesWithoutPositivesOrNegativesIsTheCrossEntropyAlone) {
  Jrc one(context_, 1, 1, 0.5f);
  one.expect(context_);
  for (const float label : {0.0f, 1.0f}) {
    Jrc jrc(context_, 30, 3, 0.25f);
    std::fill(jrc.labels.begin(), jrc.labels.end(), label);
    jrc.expect(context_);
    EXPECT_TRUE(std::isfinite(jrc.graph.loss(context_)));
  }
}

TEST_P(BatchLossTest, JrcOfOtherLabelsIsNotANumberAndZeroWeightsGiveZero) {
  Jrc jrc(context_, 30, 3, 0.5f);
  jrc.labels[4] = 2.0f;
  jrc.run(context_);
  EXPECT_TRUE(std::isnan(jrc.graph.loss(context_)));
  Jrc none(context_, 30, 3, 0.5f);
  std::fill(none.weights.begin(), none.weights.end(), 0.0f);
  none.run(context_);
  EXPECT_EQ(none.graph.loss(context_), 0.0);
  EXPECT_THAT(to_host(context_, none.graph.gradient(none.logits)), Each(0.0f));
}

TEST_P(BatchLossTest, JrcStaysFiniteAtExtremeLogits) {
  Jrc jrc(context_, 40, 2, 0.5f);
  for (size_t i = 0; i < jrc.x.size(); ++i) jrc.x[i] = i % 3 == 0 ? 2000.0f : -2000.0f;
  jrc.run(context_);
  EXPECT_TRUE(std::isfinite(jrc.graph.loss(context_)));
  for (const float gradient : to_host(context_, jrc.graph.gradient(jrc.logits)))
    EXPECT_TRUE(std::isfinite(gradient));
}

TEST_P(BatchLossTest, JrcGivesTheSameBytesWhateverRanBefore) {
  Jrc jrc(context_, 300, 20, 0.5f);
  jrc.run(context_);
  const double loss = jrc.graph.loss(context_);
  const auto gradients = to_host(context_, jrc.graph.gradient(jrc.logits));
  ThreadPool pool(3);
  Context more = context_;
  more.threads = &pool;
  for (const Context& context : {context_, more}) {
    jrc.run(context);
    EXPECT_EQ(jrc.graph.loss(context), loss);
    EXPECT_EQ(to_host(context, jrc.graph.gradient(jrc.logits)), gradients);
  }
}

TEST(Jrc, IsComputedInSixteenBitsToo) {
  const Context cuda{.device = Device::kCuda};
  if (!device_is_usable(Device::kCuda)) GTEST_SKIP() << "no CUDA device here";
  Jrc jrc(cuda, 60, 7, 0.5f, DType::kBf16);
  for (float& x : jrc.x) x = std::round(4.0f * x) / 4.0f;
  jrc.expect(cuda, 1e-2);
}

struct Distillation {
  static constexpr int64_t kCols = 6;
  Graph graph{1};
  Node x, y;
  Graph::Target target;
  std::vector<float> left, right, weights;
  Graph::Similarity similarity;

  Distillation(const Context& context, Graph::Similarity similarity, int64_t rows)
      : similarity(similarity) {
    x = graph.trained_input("x", kCols);
    y = graph.trained_input("y", kCols);
    target.weights = graph.input("weights", 1);
    target.factor = 0.5f;
    target.name = "hint";
    graph.distillation_loss(x, y, similarity, target);
    graph.prepare(context, rows + 2);
    left = normals(rows * kCols, 1, 1.0f);
    right = normals(rows * kCols, 2, 1.5f);
    for (int64_t r = 0; r < rows; ++r) weights.push_back(random_uniform(1, 3, r));
  }
  void run(const Context& context, Phase phase = Phase::kTrain) {
    graph.set_rows(static_cast<int64_t>(weights.size()));
    to_device(context, left, graph.value(x));
    to_device(context, right, graph.value(y));
    to_device(context, weights, graph.value(target.weights));
    graph.forward(context, phase, 0);
    if (phase == Phase::kTrain) graph.backward(context);
  }
  double formula(const Doubles& x) const {
    double mean = 0.0, sum = 0.0;  // weights with the mean 1
    for (const float w : weights) mean += w / static_cast<double>(weights.size());
    for (size_t r = 0; r < weights.size(); ++r) {
      double squares = 0.0, product = 0.0, xx = 0.0, yy = 0.0;
      for (size_t i = r * kCols; i < (r + 1) * kCols; ++i) {
        squares += std::pow(x[i] - right[i], 2);
        product += x[i] * right[i];
        xx += x[i] * x[i];
        yy += static_cast<double>(right[i]) * right[i];
      }
      sum += weights[r] / mean *
             (similarity == Graph::Similarity::kCosine ? -0.1 * product / std::sqrt(xx * yy)
                                                       : squares);
    }
    const auto rows = static_cast<double>(weights.size());
    if (similarity == Graph::Similarity::kEuclid) return 0.5 * std::sqrt(sum);
    return 0.5 * sum / rows / (similarity == Graph::Similarity::kSquaredError ? kCols : 1.0);
  }
};

TEST_P(BatchLossTest, DistillationFollowsItsDefinition) {
  using Similarity = Graph::Similarity;
  for (const auto similarity :
       {Similarity::kSquaredError, Similarity::kCosine, Similarity::kEuclid}) {
    for (const int64_t rows : {1, 70}) {
      Distillation d(context_, similarity, rows);
      d.run(context_);
      EXPECT_NEAR(d.graph.loss(context_), d.formula(Doubles(d.left.begin(), d.left.end())), 1e-5);
      expect_gradients(
          d.left, to_host(context_, d.graph.gradient(d.x)),
          [&](const Doubles& at) { return d.formula(at); }, 1e-5);
      EXPECT_THAT(to_host(context_, d.graph.gradient(d.y)), Each(0.0f)) << "y is not changed";
    }
  }
}

TEST_P(BatchLossTest, DistillationIsForTrainingOnly) {
  Distillation d(context_, Graph::Similarity::kSquaredError, 8);
  d.run(context_, Phase::kEval);
  EXPECT_EQ(d.graph.loss(context_), 0.0);
  d.run(context_, Phase::kTrain);
  EXPECT_GT(d.graph.loss(context_), 0.0);
}

TEST_P(BatchLossTest, DistillationOfEqualNodesHasNoGradient) {
  for (const auto similarity : {Graph::Similarity::kSquaredError, Graph::Similarity::kEuclid}) {
    Distillation d(context_, similarity, 8);
    d.right = d.left;
    d.run(context_);
    EXPECT_EQ(d.graph.loss(context_), 0.0);
    EXPECT_THAT(to_host(context_, d.graph.gradient(d.x)), Each(0.0f));
  }
}

TEST_P(BatchLossTest, LossesForTrainingOnlyAreZeroInEvaluation) {
  Graph g(1);
  const Node x = g.trained_input("x", 1);
  Graph::Target target;
  target.labels = g.input("labels", 1);
  target.training_only = true;
  g.minimize(losses::BinaryCrossEntropy{}, x, target);
  g.prepare(context_, 1);
  g.set_rows(1);
  to_device<float>(context_, {0.0f}, g.value(x));
  to_device<float>(context_, {1.0f}, g.value(target.labels));
  g.forward(context_, Phase::kTrain, 0);
  EXPECT_NEAR(g.loss(context_), std::log(2.0), 1e-9);
  g.forward(context_, Phase::kEval, 0);
  EXPECT_EQ(g.loss(context_), 0.0);
}

}  // namespace
}  // namespace emblem
