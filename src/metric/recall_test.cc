#include "metric/recall.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/math/random.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(RecallAtK, SaysWhetherTheTargetIsAmongTheBest) {
  const std::vector<float> scores = {0.1f, 0.9f, 0.5f, 0.7f};
  EXPECT_EQ(recall_at_k(scores, 1, 1), 1.0);
  EXPECT_EQ(recall_at_k(scores, 3, 1), 0.0);
  EXPECT_EQ(recall_at_k(scores, 3, 2), 1.0);
  EXPECT_EQ(recall_at_k(scores, 0, 3), 0.0);
  EXPECT_EQ(recall_at_k(scores, 0, 100), 1.0);
}

TEST(RecallAtK, SharesTheLastPlacesAmongTies) {
  const std::vector<float> equal(8, 0.5f);
  EXPECT_EQ(recall_at_k(equal, 0, 2), 0.25);
  EXPECT_EQ(recall_at_k(equal, 7, 2), 0.25);
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
    const int64_t target = static_cast<int64_t>(random.below(20));
    const bool hit = std::find(order.begin(), order.begin() + 5, target) != order.begin() + 5;
    EXPECT_EQ(recall_at_k(scores, target, 5), hit ? 1.0 : 0.0);
  }
}

TEST(RecallAtK, IsTheMeanOverQueries) {
  RecallAtK recall(1), more(1);
  EXPECT_EQ(recall.name(), "recall@1");
  EXPECT_TRUE(std::isnan(recall.value()));
  const std::vector<float> scores = {1, 2, 3, /**/ 3, 2, 1};
  const std::vector<int64_t> targets = {2, 2};
  recall.add({scores.data(), 2, 3}, targets);
  EXPECT_EQ(recall.value(), 0.5);
  more.add({scores.data(), 1, 3}, std::span(targets).first(1));
  recall.merge(more);
  EXPECT_DOUBLE_EQ(recall.value(), 2.0 / 3);
}

TEST(RecallAtK, RejectsBadInputAndAddsNothing) {
  RecallAtK recall(2);
  const std::vector<float> scores = {1, 2}, bad = {1, NAN};
  const std::vector<int64_t> outside = {2}, inside = {0}, two = {0, 1};
  EXPECT_THAT(
      [&] {
        recall.add({scores.data(), 1, 2}, outside);
      },
      ThrowsMessage<Error>(HasSubstr("target 2 is outside the 2 candidates")));
  EXPECT_THAT(
      [&] {
        recall.add({bad.data(), 1, 2}, inside);
      },
      ThrowsMessage<Error>(HasSubstr("NaN")));
  EXPECT_THAT(
      [&] {
        recall.add({scores.data(), 1, 2}, two);
      },
      ThrowsMessage<Error>(HasSubstr("2 targets for 1 queries")));
  EXPECT_TRUE(std::isnan(recall.value()));
  EXPECT_THAT([] { RecallAtK{0}; }, ThrowsMessage<Error>(HasSubstr("top_k: 0")));
}

}  // namespace
}  // namespace emblem
