#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "core/math/random.h"
#include "metric/metric.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

struct XaucRows {
  std::vector<float> predictions, labels, weights;
  std::vector<int64_t> groups;

  // Few levels: many ties.
  static XaucRows random(uint64_t seed, int64_t count, int64_t levels) {
    Random random{seed};
    XaucRows rows;
    for (int64_t i = 0; i < count; ++i) {
      rows.labels.push_back(static_cast<float>(random.below(levels)) - 2.0f);
      rows.predictions.push_back(rows.labels.back() + static_cast<float>(random.below(levels)));
      rows.weights.push_back(0.25f * static_cast<float>(random.below(5)));
      rows.groups.push_back(static_cast<int64_t>(random.below(40)) - 3);
    }
    return rows;
  }
  MetricBatch part(size_t begin, size_t count) const {
    return {.predictions = std::span(predictions).subspan(begin, count),
            .labels = std::span(labels).subspan(begin, count),
            .weights = std::span(weights).subspan(begin, count),
            .groups = std::span(groups).subspan(begin, count)};
  }
  MetricBatch all() const { return part(0, labels.size()); }
};

// Every pair, one by one.
double naive_xauc(const MetricBatch& batch, const std::vector<size_t>& rows) {
  double ordered = 0, total = 0;
  for (const size_t i : rows) {
    for (const size_t j : rows) {
      if (i >= j) continue;
      const double weight = static_cast<double>(batch.weight(i)) * batch.weight(j);
      const double product =
          (batch.labels[i] - batch.labels[j]) * (batch.predictions[i] - batch.predictions[j]);
      ordered += product > 0 ? weight : 0;
      total += weight;
    }
  }
  return ordered / total;
}

std::vector<size_t> all_rows(const MetricBatch& batch) {
  std::vector<size_t> rows(batch.labels.size());
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = i;
  return rows;
}

TEST(Xauc, CountsEveryPair) {
  for (const int64_t levels : {2, 5, 1000}) {
    const XaucRows rows = XaucRows::random(7, 300, levels);
    MetricBatch batch = rows.all();
    auto weighted = make_xauc();
    weighted->add(batch);
    EXPECT_NEAR(weighted->value(), naive_xauc(batch, all_rows(batch)), 1e-12) << levels;
    batch.weights = {};
    auto plain = make_xauc();
    plain->add(batch);
    EXPECT_NEAR(plain->value(), naive_xauc(batch, all_rows(batch)), 1e-12) << levels;
  }
}

TEST(Xauc, OfAPairIsOneWhenItIsOrderedAndZeroForATie) {
  const std::vector<float> labels = {1, 2}, up = {0.5f, 0.6f}, tie = {0.5f, 0.5f};
  auto ordered = make_xauc();
  ordered->add({.predictions = up, .labels = labels});
  EXPECT_EQ(ordered->value(), 1.0);
  auto tied = make_xauc();
  tied->add({.predictions = tie, .labels = labels});
  EXPECT_EQ(tied->value(), 0.0);
}

TEST(Xauc, DoesNotDependOnBatchesNorOnTheOrderOfMerging) {
  const XaucRows rows = XaucRows::random(11, 500, 9);
  auto whole = make_xauc(), a = make_xauc(), b = make_xauc();
  whole->add(rows.all());
  a->add(rows.part(0, 123));
  b->add(rows.part(123, 377));
  auto ab = make_xauc(), ba = make_xauc();
  ab->merge(*a), ab->merge(*b);
  ba->merge(*b), ba->merge(*a);
  EXPECT_EQ(ab->value(), whole->value());
  EXPECT_EQ(ba->value(), whole->value());
}

TEST(Xauc, IsUndefinedWhenAllLabelsAreEqual) {
  const std::vector<float> labels = {1, 1, 1}, predictions = {1, 2, 3};
  const std::vector<int64_t> groups = {0, 0, 1};
  for (auto& metric : {make_xauc(), make_grouped_xauc()}) {
    EXPECT_TRUE(std::isnan(metric->value())) << "without rows";
    metric->add({.predictions = predictions, .labels = labels, .groups = groups});
    EXPECT_TRUE(std::isnan(metric->value()));
  }
}

TEST(Xauc, InBatchIsTheMeanOverBatches) {
  const XaucRows rows = XaucRows::random(13, 96, 6);
  auto metric = make_xauc_in_batch();
  double sum = 0;
  for (size_t begin = 0; begin < 96; begin += 32) {
    const MetricBatch batch = rows.part(begin, 32);
    metric->add(batch);
    sum += naive_xauc(batch, all_rows(batch));
  }
  metric->add(rows.part(0, 1));  // no pair
  EXPECT_NEAR(metric->value(), sum / 3, 1e-12);
}

TEST(GroupedXauc, IsWeightedByRowsOfGroupsOfTwoOrMore) {
  const XaucRows rows = XaucRows::random(17, 120, 12);
  MetricBatch batch = rows.all();
  batch.weights = {};
  std::map<int64_t, std::vector<size_t>> groups;
  for (size_t i = 0; i < batch.groups.size(); ++i) groups[batch.groups[i]].push_back(i);
  double sum = 0, weight = 0;
  for (const auto& [key, members] : groups) {
    if (members.size() < 2) continue;
    sum += naive_xauc(batch, members) * static_cast<double>(members.size());
    weight += static_cast<double>(members.size());
  }
  auto metric = make_grouped_xauc();
  metric->add(batch);
  EXPECT_NEAR(metric->value(), sum / weight, 1e-12);
}

TEST(GroupedXauc, NeedsGroups) {
  const std::vector<float> values = {1, 2};
  EXPECT_THAT([&] { make_grouped_xauc()->add({.predictions = values, .labels = values}); },
              ThrowsMessage<Error>(HasSubstr("needs a group key per row")));
}

}  // namespace
}  // namespace emblem
