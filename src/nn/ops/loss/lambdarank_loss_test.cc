// A loss that orders the rows of a session, against its definition in double precision.
#include <gmock/gmock.h>

#include <cmath>

#include "core/device/device_test.h"
#include "core/math/random.h"
#include "nn/graph.h"

namespace emblem {
namespace {

using testing::Each;

class LambdaRankTest : public DeviceTest {};
EMBLEM_TEST_ON_EVERY_DEVICE(LambdaRankTest);

struct Ranking {
  Graph graph{1};
  Node scores, sessions;
  Graph::Target target;
  std::vector<float> x, labels, weights;
  std::vector<int64_t> ids;

  Ranking(const Context& context, int64_t rows, int64_t session_count,
          DType precision = DType::kF32) {
    scores = graph.trained_input("scores", 1);
    sessions = graph.id_input("sessions");
    target.labels = graph.input("labels", 1);
    target.weights = graph.input("weights", 1);
    target.factor = 2.0f;
    graph.minimize(losses::LambdaRankLoss{}, scores, target, sessions);
    graph.prepare(context, rows + 9, precision);
    for (int64_t r = 0; r < rows; ++r) {
      x.push_back(2.0f * random_normal(3, 1, r));
      labels.push_back(static_cast<float>(random_bits(1, 2, r) % 4));
      weights.push_back(random_uniform(1, 3, r));
      // Sessions may be any number, of either sign.
      ids.push_back(static_cast<int64_t>(random_bits(1, 4, random_bits(1, 5, r) % session_count)));
    }
  }
  void run(const Context& context, Phase phase = Phase::kTrain) {
    graph.set_rows(static_cast<int64_t>(ids.size()));
    to_device(context, x, graph.value(scores));
    to_device(context, labels, graph.value(target.labels));
    to_device(context, weights, graph.value(target.weights));
    to_device(context, ids, graph.ids(sessions));
    graph.forward(context, phase, 0);
    if (phase == Phase::kTrain) graph.backward(context);
  }

  // How many rows of i's session come before it by `key`.
  template <class Key>
  double discount(size_t i, const Key& key) const {
    int rank = 0;
    for (size_t j = 0; j < ids.size(); ++j)
      rank += ids[j] == ids[i] && (key[j] > key[i] || (key[j] == key[i] && j < i));
    return 1.0 / std::log2(rank + 2.0);
  }
  // As the definition says, pair by pair; weights of pairs by the scores of this run.
  double formula(const std::vector<double>& at) const {
    double sum = 0.0, total = 0.0;
    for (size_t i = 0; i < ids.size(); ++i) {
      double best = 0.0, of_row = 0.0;
      for (size_t j = 0; j < ids.size(); ++j) {
        if (ids[j] != ids[i]) continue;
        best += labels[j] * discount(j, labels);
        if (labels[i] > labels[j])
          of_row += (labels[i] - labels[j]) * std::abs(discount(i, x) - discount(j, x)) *
                    std::log1p(std::exp(at[j] - at[i]));
      }
      if (of_row != 0.0) sum += weights[i] * of_row / best;
      total += weights[i];
    }
    return target.factor * sum / total;
  }
  void expect(const Context& context, double tolerance = 3e-6) {
    run(context);
    std::vector<double> at(x.begin(), x.end());
    EXPECT_NEAR(graph.loss(context), formula(at), tolerance);
    const std::vector<float> gradients = to_host(context, graph.gradient(scores));
    for (size_t i = 0; i < x.size(); ++i) {
      at[i] = x[i] + 1e-5;
      const double above = formula(at);
      at[i] = x[i] - 1e-5;
      const double below = formula(at);
      at[i] = x[i];
      ASSERT_NEAR(gradients[i], (above - below) / 2e-5, tolerance) << i;
    }
  }
};

TEST_P(LambdaRankTest, OrdersTheRowsOfEachSession) {
  for (const auto& [rows, sessions] : {std::pair<int64_t, int64_t>(60, 7), {80, 1}, {40, 400}})
    Ranking(context_, rows, sessions).expect(context_);
}

TEST_P(LambdaRankTest, OfEqualScoresTheEarlierRowComesFirst) {
  Ranking ranking(context_, 60, 4);
  for (float& x : ranking.x) x = std::round(x);
  ranking.expect(context_);
}

TEST_P(LambdaRankTest, SessionsWhoseLabelsAreEqualAddNothing) {
  for (const float label : {0.0f, 2.0f}) {
    Ranking ranking(context_, 30, 3);
    std::fill(ranking.labels.begin(), ranking.labels.end(), label);
    ranking.run(context_);
    EXPECT_EQ(ranking.graph.loss(context_), 0.0);
    EXPECT_THAT(to_host(context_, ranking.graph.gradient(ranking.scores)), Each(0.0f));
  }
}

TEST_P(LambdaRankTest, OfANegativeLabelIsNotANumberAndZeroWeightsGiveZero) {
  Ranking ranking(context_, 30, 3);
  ranking.labels[4] = -1.0f;
  ranking.run(context_);
  EXPECT_TRUE(std::isnan(ranking.graph.loss(context_)));
  Ranking none(context_, 30, 3);
  std::fill(none.weights.begin(), none.weights.end(), 0.0f);
  none.run(context_);
  EXPECT_EQ(none.graph.loss(context_), 0.0);
  EXPECT_THAT(to_host(context_, none.graph.gradient(none.scores)), Each(0.0f));
}

TEST_P(LambdaRankTest, StaysFiniteAtExtremeScoresAndScoresThatAreNoNumberAreSeen) {
  Ranking ranking(context_, 40, 2);
  for (size_t i = 0; i < ranking.x.size(); ++i) ranking.x[i] = i % 3 == 0 ? 2000.0f : -2000.0f;
  ranking.run(context_);
  EXPECT_TRUE(std::isfinite(ranking.graph.loss(context_)));
  for (const float gradient : to_host(context_, ranking.graph.gradient(ranking.scores)))
    EXPECT_TRUE(std::isfinite(gradient));
  for (float& x : ranking.x) x = NAN;
  ranking.run(context_);
  EXPECT_TRUE(std::isnan(ranking.graph.loss(context_)));
}

TEST_P(LambdaRankTest, GivesTheSameBytesWhateverRanBefore) {
  Ranking ranking(context_, 300, 20);
  ranking.run(context_);
  const double loss = ranking.graph.loss(context_);
  const auto gradients = to_host(context_, ranking.graph.gradient(ranking.scores));
  ThreadPool pool(3);
  Context more = context_;
  more.threads = &pool;
  for (const Context& context : {context_, more}) {
    ranking.run(context);
    EXPECT_EQ(ranking.graph.loss(context), loss);
    EXPECT_EQ(to_host(context, ranking.graph.gradient(ranking.scores)), gradients);
  }
}

TEST(LambdaRank, IsComputedInSixteenBitsToo) {
  const Context cuda{.device = Device::kCuda};
  if (!device_is_usable(Device::kCuda)) GTEST_SKIP() << "no CUDA device here";
  Ranking ranking(cuda, 60, 7, DType::kBf16);
  for (float& x : ranking.x) x = std::round(4.0f * x) / 4.0f;
  ranking.expect(cuda, 1e-2);
}

}  // namespace
}  // namespace emblem
