#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "core/math/random.h"
#include "metric/metric.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

struct NdcgRows {
  std::vector<float> scores, labels;
  std::vector<int64_t> groups;

  MetricBatch all() const { return {.predictions = scores, .labels = labels, .groups = groups}; }
};

double gain_of_order(const NdcgRows& rows, const std::vector<size_t>& order, size_t k) {
  double sum = 0;
  for (size_t rank = 0; rank < std::min(k, order.size()); ++rank)
    sum += rows.labels[order[rank]] / std::log2(static_cast<double>(rank) + 2.0);
  return sum;
}

// The mean over all orders of the rows that agree with the scores.
double naive_ndcg(const NdcgRows& rows, size_t k) {
  std::map<int64_t, std::vector<size_t>> groups;
  for (size_t i = 0; i < rows.groups.size(); ++i) groups[rows.groups[i]].push_back(i);
  double sum = 0;
  int64_t count = 0;
  for (auto& [key, members] : groups) {
    std::vector<size_t> ideal = members;
    std::sort(ideal.begin(), ideal.end(),
              [&](size_t a, size_t b) { return rows.labels[a] > rows.labels[b]; });
    const double best = gain_of_order(rows, ideal, k);
    if (best == 0) continue;
    double total = 0;
    int64_t orders = 0;
    std::sort(members.begin(), members.end());
    do {
      const bool agrees = std::is_sorted(members.begin(), members.end(), [&](size_t a, size_t b) {
        return rows.scores[a] > rows.scores[b];
      });
      if (!agrees) continue;
      total += gain_of_order(rows, members, k);
      ++orders;
    } while (std::next_permutation(members.begin(), members.end()));
    sum += total / static_cast<double>(orders) / best;
    ++count;
  }
  return sum / static_cast<double>(count);
}

NdcgRows random_rows(uint64_t seed) {
  Random random{seed};
  NdcgRows rows;
  for (int i = 0; i < 36; ++i) {
    rows.groups.push_back(static_cast<int64_t>(random.below(8)));
    rows.scores.push_back(static_cast<float>(random.below(4)) * 0.25f);
    rows.labels.push_back(static_cast<float>(random.below(3)));
  }
  return rows;
}

TEST(NdcgAtK, IsTheMeanOverAllOrdersThatAgreeWithTheScores) {
  const NdcgRows rows = random_rows(3);
  for (const int64_t k : {1, 2, 3, 10}) {
    auto metric = make_ndcg_at_k(k);
    metric->add(rows.all());
    EXPECT_NEAR(metric->value(), naive_ndcg(rows, static_cast<size_t>(k)), 1e-12) << k;
    EXPECT_EQ(metric->name(), cat("ndcg@", k));
  }
}

TEST(NdcgAtK, SkipsGroupsWithoutAPositiveLabel) {
  NdcgRows rows{{0.9f, 0.1f, 0.5f, 0.4f}, {0, 1, 0, 0}, {1, 1, 2, 2}};
  auto metric = make_ndcg_at_k(5);
  EXPECT_TRUE(std::isnan(metric->value()));
  metric->add(rows.all());
  EXPECT_NEAR(metric->value(), 1.0 / std::log2(3.0), 1e-12);
  auto none = make_ndcg_at_k(5);
  rows.labels = {0, 0, 0, 0};
  none->add(rows.all());
  EXPECT_TRUE(std::isnan(none->value()));
}

TEST(NdcgAtK, DoesNotDependOnTheOrderOfMerging) {
  const NdcgRows first = random_rows(5), second = random_rows(6);
  auto ab = make_ndcg_at_k(3), ba = make_ndcg_at_k(3), b = make_ndcg_at_k(3);
  ab->add(first.all()), ab->add(second.all());
  b->add(first.all());
  ba->add(second.all()), ba->merge(*b);
  EXPECT_EQ(ab->value(), ba->value());
}

TEST(NdcgAtK, RejectsWhatItCannotRank) {
  EXPECT_THAT([] { make_ndcg_at_k(0); }, ThrowsMessage<Error>(HasSubstr("at least 1")));
  const NdcgRows rows{{1, 2}, {-1, 0}, {0, 0}};
  EXPECT_THAT([&] { make_ndcg_at_k(1)->add(rows.all()); },
              ThrowsMessage<Error>(HasSubstr("labels of 0 or more, but found -1")));
}

}  // namespace
}  // namespace emblem
