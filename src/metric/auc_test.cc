#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "core/math/random.h"
#include "metric/metric.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

struct AucRows {
  std::vector<float> scores, labels, weights;
  std::vector<int64_t> groups;

  // Scores on a grid of `levels` values: few levels, many ties.
  static AucRows random(uint64_t seed, int64_t count, int64_t levels) {
    Random random{seed};
    AucRows rows;
    for (int64_t i = 0; i < count; ++i) {
      const float score = static_cast<float>(random.below(levels)) / static_cast<float>(levels);
      rows.scores.push_back(score);
      rows.labels.push_back(random.uniform() < 0.2f + 0.5f * score ? 1.0f : 0.0f);
      rows.weights.push_back(0.25f * static_cast<float>(random.below(5)));
      rows.groups.push_back(static_cast<int64_t>(random.below(7)) - 3);
    }
    return rows;
  }
  MetricBatch part(size_t begin, size_t end) const {
    return {.predictions = std::span(scores).subspan(begin, end - begin),
            .labels = std::span(labels).subspan(begin, end - begin),
            .groups = std::span(groups).subspan(begin, end - begin)};
  }
  MetricBatch all() const { return part(0, scores.size()); }
  MetricBatch weighted() const {
    MetricBatch batch = all();
    batch.weights = weights;
    return batch;
  }
};

// Every pair of a positive and a negative row, one by one.
double pair_counting_auc(const MetricBatch& batch) {
  double won = 0, pairs = 0;
  for (size_t i = 0; i < batch.labels.size(); ++i) {
    for (size_t j = 0; j < batch.labels.size(); ++j) {
      if (batch.labels[i] != 1.0f || batch.labels[j] != 0.0f) continue;
      const double weight = static_cast<double>(batch.weight(i)) * batch.weight(j);
      const float difference = batch.predictions[i] - batch.predictions[j];
      won += weight * (difference > 0 ? 1.0 : difference == 0 ? 0.5 : 0.0);
      pairs += weight;
    }
  }
  return won / pairs;
}

// The curve's points threshold by threshold, then trapezoids.
double trapezoid_auc(const MetricBatch& batch, int thresholds) {
  double area = 0, last_x = 0, last_y = 0, positives = 0, negatives = 0;
  for (const float label : batch.labels) (label == 1.0f ? positives : negatives) += 1;
  for (int t = thresholds - 1; t >= 0; --t) {
    const double threshold = static_cast<double>(t) / (thresholds - 1);
    double x = 0, y = 0;
    for (size_t i = 0; i < batch.labels.size(); ++i) {
      if (batch.predictions[i] >= threshold) (batch.labels[i] == 1.0f ? y : x) += 1;
    }
    area += (x - last_x) / negatives * (y + last_y) / positives / 2;
    last_x = x, last_y = y;
  }
  return area;
}

TEST(ExactAuc, AgreesWithCountingPairs) {
  for (const int64_t levels : {2, 10, 1000, 1 << 20}) {
    const AucRows rows = AucRows::random(levels, 500, levels);
    const auto metric = make_exact_auc();
    metric->add(rows.all());
    EXPECT_NEAR(metric->value(), pair_counting_auc(rows.all()), 1e-12) << levels << " levels";
    const auto weighted = make_exact_auc();
    weighted->add(rows.weighted());
    EXPECT_NEAR(weighted->value(), pair_counting_auc(rows.weighted()), 1e-12)
        << levels << " levels";
  }
}

TEST(ExactAuc, RanksAnyFiniteScores) {
  const auto metric = make_exact_auc();
  const std::vector<float> scores = {-1e30f, -2.0f, -0.0f, 0.0f, 1e-40f, 3e38f},
                           labels = {0, 1, 0, 1, 0, 1};
  metric->add({.predictions = scores, .labels = labels});
  // The positives win 1 (-2) + 1.5 (0, a tie with -0) + 3 (3e38) of 9 pairs.
  EXPECT_DOUBLE_EQ(metric->value(), 5.5 / 9);
}

TEST(ExactAuc, IsOneHalfWhenAllScoresTie) {
  const auto metric = make_exact_auc();
  const std::vector<float> scores(4, 0.3f), labels = {0, 1, 1, 1};
  metric->add({.predictions = scores, .labels = labels});
  EXPECT_EQ(metric->value(), 0.5);
}

TEST(ExactAuc, DependsNeitherOnBatchesNorOnWhenItWasAsked) {
  const AucRows rows = AucRows::random(5, 1000, 100);
  const auto once = make_exact_auc(), pieces = make_exact_auc();
  once->add(rows.all());
  pieces->add(rows.part(0, 17));
  pieces->value();
  pieces->add(rows.part(17, 17));
  pieces->add(rows.part(17, 1000));
  EXPECT_EQ(pieces->value(), once->value());
}

template <class Make>
void expect_undefined_for_single_labels(Make make) {
  EXPECT_TRUE(std::isnan(make()->value())) << "without rows";
  for (const float label : {0.0f, 1.0f}) {
    const auto metric = make();
    const std::vector<float> scores = {0.1f, 0.9f}, labels = {label, label};
    const std::vector<int64_t> groups = {1, 1};
    metric->add({.predictions = scores, .labels = labels, .groups = groups});
    EXPECT_TRUE(std::isnan(metric->value())) << "all labels " << label;
  }
}

TEST(Auc, IsUndefinedWhenAllLabelsAreEqual) {
  expect_undefined_for_single_labels([] { return make_exact_auc(); });
  expect_undefined_for_single_labels([] { return make_binned_auc(200); });
  expect_undefined_for_single_labels([] { return make_grouped_auc(); });
}

TEST(Auc, ASoftLabelIsAPositiveAndANegativeRow) {
  const std::vector<float> scores = {0.1f, 0.4f, 0.4f, 0.7f, 0.9f}, labels = {0, 0.25f, 1, 0.5f, 1},
                           weights = {1, 2, 1, 1, 3};
  const std::vector<int64_t> groups(5, 1);
  const std::vector<float> of_both = {0.1f, 0.4f, 0.4f, 0.4f, 0.7f, 0.7f, 0.9f},
                           hard = {0, 1, 0, 1, 1, 0, 1}, shares = {1, 0.5f, 1.5f, 1, 0.5f, 0.5f, 3};
  const std::vector<int64_t> groups_of_both(7, 1);
  for (const auto& make : {+[] { return make_exact_auc(); }, +[] { return make_binned_auc(200); },
                           +[] { return make_grouped_auc(); }}) {
    const auto soft = make(), expected = make();
    soft->add({.predictions = scores, .labels = labels, .weights = weights, .groups = groups});
    expected->add(
        {.predictions = of_both, .labels = hard, .weights = shares, .groups = groups_of_both});
    EXPECT_DOUBLE_EQ(soft->value(), expected->value());
  }
}

TEST(Auc, RejectsLabelsOutsideOfZeroToOne) {
  const std::vector<float> scores = {0.1f, 0.9f}, labels = {1, 1.5f};
  for (const auto& metric : {make_exact_auc().release(), make_binned_auc(200).release()}) {
    const std::unique_ptr<Metric> owner(metric);
    EXPECT_THAT([&] { metric->add({.predictions = scores, .labels = labels}); },
                ThrowsMessage<Error>(
                    HasSubstr("needs labels in [0, 1], but row 1 of the batch has label 1.5")));
  }
}

TEST(BinnedAuc, AgreesWithTrapezoidsOverThresholds) {
  for (const int thresholds : {2, 3, 200, 8000}) {
    const AucRows rows =
        AucRows::random(thresholds, 300, 10007);  // prime: no score lies on a threshold but 0
    const auto metric = make_binned_auc(thresholds);
    metric->add(rows.all());
    EXPECT_NEAR(metric->value(), trapezoid_auc(rows.all(), thresholds), 1e-12) << thresholds;
  }
}

// Compared with a tolerance: whether a multiplication and a subtraction are rounded once or twice
// is up to the compiler.
TEST(BinnedAuc, SpacesThresholdsEvenlyFromZeroToOne) {
  for (const int count : {2, 3, 200, 8000}) {
    const std::vector<float> thresholds = auc_thresholds(count);
    ASSERT_EQ(thresholds.size(), static_cast<size_t>(count));
    EXPECT_EQ(thresholds.front(), 0.0f);
    EXPECT_EQ(thresholds.back(), 1.0f);
    for (int i = 1; i < count; ++i) {
      EXPECT_NEAR(thresholds[i], static_cast<double>(i) / (count - 1), 1e-7)
          << i << " of " << count;
      EXPECT_LT(thresholds[i - 1], thresholds[i]) << i << " of " << count;
    }
  }
}

TEST(BinnedAuc, PutsEveryThresholdItselfIntoItsOwnBin) {
  // Two rows a threshold, one on it and one just below: exact AUC and binned AUC see the same
  // order.
  const int thresholds = 1000;
  std::vector<float> scores, labels;
  for (const float on : auc_thresholds(thresholds)) {
    if (on == 0.0f) continue;
    scores.insert(scores.end(), {on, std::nextafter(on, 0.0f)});
    labels.insert(labels.end(), {1, 0});
  }
  const auto binned = make_binned_auc(thresholds), exact = make_exact_auc();
  binned->add({.predictions = scores, .labels = labels});
  exact->add({.predictions = scores, .labels = labels});
  // Binned, the row below threshold i ties with the row on threshold i - 1.
  const double n = thresholds - 1;
  EXPECT_NEAR(exact->value(), (n * (n + 1) / 2) / (n * n), 1e-12);
  EXPECT_NEAR(binned->value(), (n * (n + 1) / 2 + 0.5 * (n - 1)) / (n * n), 1e-12);
}

TEST(BinnedAuc, ComesCloseToTheExactOneWithManyThresholds) {
  const AucRows rows = AucRows::random(3, 20000, 1 << 20);
  const auto binned = make_binned_auc(8000), exact = make_exact_auc();
  binned->add(rows.weighted());
  exact->add(rows.weighted());
  EXPECT_NEAR(binned->value(), exact->value(), 1e-6);
}

TEST(BinnedAuc, CountsCertainProbabilities) {
  const auto metric = make_binned_auc(200);
  const std::vector<float> scores = {1, 1, 0, 0}, labels = {1, 0, 1, 0};
  metric->add({.predictions = scores, .labels = labels});
  EXPECT_EQ(metric->value(), 0.5);
}

TEST(BinnedAuc, RejectsWhatItCannotBin) {
  const std::vector<float> scores = {1.5f}, labels = {1};
  EXPECT_THAT([&] { make_binned_auc(200)->add({.predictions = scores, .labels = labels}); },
              ThrowsMessage<Error>(HasSubstr("needs probabilities in [0, 1], but found 1.5")));
  EXPECT_THAT([] { make_binned_auc(1); }, ThrowsMessage<Error>(HasSubstr("thresholds: 1")));
}

TEST(GroupedAuc, IsThePlainMeanOverGroupsWithBothLabels) {
  AucRows rows = AucRows::random(11, 400, 20);
  for (size_t i = 0; i < 50; ++i)
    rows.groups[i] = 99, rows.labels[i] = 1;  // a group without negatives
  std::map<int64_t, AucRows> by_group;
  for (size_t i = 0; i < rows.scores.size(); ++i) {
    by_group[rows.groups[i]].scores.push_back(rows.scores[i]);
    by_group[rows.groups[i]].labels.push_back(rows.labels[i]);
  }
  double sum = 0;
  for (const auto& [group, part] : by_group) {
    if (group != 99) sum += pair_counting_auc({.predictions = part.scores, .labels = part.labels});
  }
  const auto metric = make_grouped_auc();
  metric->add(rows.part(0, 123));
  metric->add(rows.part(123, 400));
  EXPECT_NEAR(metric->value(), sum / (static_cast<double>(by_group.size()) - 1), 1e-12);
}

TEST(GroupedAuc, NeedsGroupKeys) {
  const std::vector<float> one = {1};
  EXPECT_THAT([&] { make_grouped_auc()->add({.predictions = one, .labels = one}); },
              ThrowsMessage<Error>(HasSubstr("needs a group key per row")));
}

TEST(Auc, MergedPartsEqualTheWhole) {
  const AucRows rows = AucRows::random(8, 600, 50);
  const auto makers = {+[] { return make_exact_auc(); }, +[] { return make_binned_auc(200); },
                       +[] { return make_grouped_auc(); }};
  for (const auto make : makers) {
    const auto whole = make(), left = make(), right = make();
    whole->add(rows.all());
    left->add(rows.part(0, 250));
    right->add(rows.part(250, 600));
    left->merge(*right);
    EXPECT_EQ(left->value(), whole->value()) << whole->name();
  }
  EXPECT_THAT([] { make_binned_auc(200)->merge(*make_binned_auc(100)); },
              ThrowsMessage<Error>(HasSubstr("100 thresholds into one with 200")));
}

}  // namespace
}  // namespace emblem
