#include "train/predict/full_retrieval.h"

#include <gmock/gmock.h>

#include <cmath>

namespace emblem {
namespace {

using testing::IsNan;

TEST(RetrievalMetrics, AreThoseOfTheDefinitions) {
  RetrievalMetrics metrics({5, 2, 5});
  const std::vector<int64_t> chosen = {2, 4, 9}, one = {7};
  metrics.add(std::vector<int64_t>{8, 4, 1, 2, 3, 9}, chosen);  // ranks 2 and 4
  metrics.add(std::vector<int64_t>{1, 2}, one);                 // not found
  const auto values = metrics.values();
  const auto gain = [](int rank) { return 1 / std::log2(rank + 1); };
  EXPECT_EQ(metrics.users(), 2);
  EXPECT_EQ(values.size(), 10u);
  EXPECT_DOUBLE_EQ(values.at("full_recall@2"), 1. / 3 / 2);
  EXPECT_DOUBLE_EQ(values.at("full_recall@5"), 2. / 3 / 2);
  EXPECT_DOUBLE_EQ(values.at("full_hit_rate@2"), .5);
  EXPECT_DOUBLE_EQ(values.at("full_ndcg@2"), gain(2) / (gain(1) + gain(2)) / 2);
  EXPECT_DOUBLE_EQ(values.at("full_ndcg@5"),
                   (gain(2) + gain(4)) / (gain(1) + gain(2) + gain(3)) / 2);
  EXPECT_DOUBLE_EQ(values.at("full_mrr@5"), .25);
  EXPECT_DOUBLE_EQ(values.at("hitrate@2"), 1. / 4);
  EXPECT_DOUBLE_EQ(values.at("hitrate@5"), 2. / 4);
}

TEST(RetrievalMetrics, OfAPerfectListAreOne) {
  RetrievalMetrics metrics({3});
  const std::vector<int64_t> chosen = {1, 2, 3, 4, 5};
  metrics.add(std::vector<int64_t>{5, 1, 3}, chosen);
  EXPECT_DOUBLE_EQ(metrics.values().at("full_ndcg@3"), 1);
  EXPECT_DOUBLE_EQ(metrics.values().at("full_mrr@3"), 1);
  EXPECT_DOUBLE_EQ(metrics.values().at("full_recall@3"), .6);
}

TEST(RetrievalMetrics, AreUndefinedWithoutUsers) {
  EXPECT_THAT(RetrievalMetrics({1}).values().at("full_recall@1"), IsNan());
}

}  // namespace
}  // namespace emblem
