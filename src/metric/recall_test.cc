#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/math/random.h"
#include "metric/kinds.h"
#include "metric/metric.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

double recall_of(const std::vector<CandidateRank>& ranks, int64_t k,
                 const std::vector<float>& weights = {}) {
  const auto recall = make_recall_at_k(k);
  const std::vector<float> rows(ranks.size());
  recall->add({.predictions = rows, .labels = rows, .weights = weights, .ranks = ranks});
  return recall->value();
}

TEST(RecallAtK, SaysWhetherTheItemIsAmongTheBest) {
  const CandidateRank first{.better = 0}, third{.better = 2};
  EXPECT_EQ(recall_of({first}, 1), 1.0);
  EXPECT_EQ(recall_of({third}, 2), 0.0);
  EXPECT_EQ(recall_of({third}, 3), 1.0);
  EXPECT_EQ(recall_of({third}, 100), 1.0);
}

TEST(RecallAtK, SharesTheLastPlacesAmongTies) {
  EXPECT_EQ(recall_of({{.better = 0, .equal = 8}}, 2), 0.25);
  EXPECT_EQ(recall_of({{.better = 3, .equal = 4}}, 5), 0.5);
}

TEST(RecallAtK, AgreesWithSortingWhenNothingTies) {
  Random random{6};
  for (int trial = 0; trial < 100; ++trial) {
    std::vector<float> scores(20);
    for (float& score : scores) score = random.normal();
    std::vector<int64_t> order(20);
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(),
              [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });
    const auto target = static_cast<int64_t>(random.below(20));
    const bool hit = std::find(order.begin(), order.begin() + 5, target) != order.begin() + 5;
    CandidateRank rank;
    for (const float score : scores) rank.better += score > scores[target] ? 1.0f : 0.0f;
    EXPECT_EQ(recall_of({rank}, 5), hit ? 1.0 : 0.0);
  }
}

TEST(RecallAtK, IsTheWeightedMeanOverRows) {
  const auto recall = make_recall_at_k(1);
  EXPECT_EQ(recall->name(), "recall@1");
  EXPECT_TRUE(std::isnan(recall->value()));
  EXPECT_EQ(recall_of({{.better = 0}, {.better = 1}}, 1), 0.5);
  EXPECT_EQ(recall_of({{.better = 0}, {.better = 1}}, 1, {3, 1}), 0.75);
}

TEST(RankLoss, IsTheWeightedMeanOverRows) {
  const auto loss = make_rank_loss(2.0, "softmax_cross_entropy");
  const std::vector<CandidateRank> ranks = {{.loss = 1}, {.loss = 3}};
  const std::vector<float> rows(2), weights = {1, 3};
  loss->add({.predictions = rows, .labels = rows, .weights = weights, .ranks = ranks});
  EXPECT_DOUBLE_EQ(loss->value(), 5.0);
}

TEST(RecallAtK, RejectsBadInputAndAddsNothing) {
  const auto recall = make_recall_at_k(2);
  const std::vector<float> rows(2);
  const std::vector<CandidateRank> one(1), bad = {{}, {.loss = NAN}};
  const auto add = [&](std::span<const CandidateRank> ranks) {
    recall->add({.predictions = rows, .labels = rows, .ranks = ranks});
  };
  EXPECT_THAT([&] { add(one); }, ThrowsMessage<Error>(HasSubstr("1 ranks for 2 predictions")));
  EXPECT_THAT([&] { add({}); }, ThrowsMessage<Error>(HasSubstr("needs the rank of each row")));
  EXPECT_THAT([&] { add(bad); }, ThrowsMessage<Error>(HasSubstr("a loss of nan")));
  EXPECT_TRUE(std::isnan(recall->value()));
  EXPECT_THAT([] { make_recall_at_k(0); }, ThrowsMessage<Error>(HasSubstr("top_k: 0")));
}

TEST(RecallAtK, IsTheOnlyMetricOfModelsThatRankCandidates) {
  for (const auto& [metric, of_matching, of_others] :
       {std::tuple("recall", "", "ranks the candidates"), {"auc", "use recall_at_k", ""}}) {
    config::MetricConfig settings;
    if (std::string(metric) == "recall")
      settings.mutable_recall_at_k();
    else
      settings.mutable_auc();
    EXPECT_THAT(metric_problem(settings, {.ranks_candidates = true}), HasSubstr(of_matching));
    EXPECT_EQ(metric_problem(settings, {.ranks_candidates = true}).empty(),
              std::string(of_matching).empty());
    EXPECT_THAT(metric_problem(settings, {}), HasSubstr(of_others));
    EXPECT_EQ(metric_problem(settings, {}).empty(), std::string(of_others).empty());
  }
}

}  // namespace
}  // namespace emblem
