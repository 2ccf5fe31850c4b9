// Metrics as bytes: what several ranks measure is merged by one.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <functional>

#include "core/math/random.h"
#include "metric/metric.h"

namespace emblem {
namespace {

// Random rows for every metric: probabilities, logits, groups, classes.
struct SavedMetricsRows {
  std::vector<float> predictions, labels, logits, weights, probabilities, class_logits;
  std::vector<int64_t> groups;
  std::vector<CandidateRank> ranks;
  int64_t classes = 1;

  SavedMetricsRows(size_t count, int64_t of_classes, bool weighted, uint64_t seed)
      : classes(of_classes) {
    Random random{seed, 3};
    const auto uniform = [&] { return static_cast<float>(random.below(997)) / 997.0f; };
    for (size_t row = 0; row < count; ++row) {
      labels.push_back(
          static_cast<float>(random.below(static_cast<size_t>(std::max<int64_t>(2, classes)))));
      groups.push_back(static_cast<int64_t>(random.below(9)) - 4);
      ranks.push_back({uniform(), static_cast<float>(random.below(9)), 1.0f});
      if (weighted) weights.push_back(uniform() * 3);
      logits.push_back(uniform() * 6 - 3);
      predictions.push_back(1 / (1 + std::exp(-logits.back())));
      double sum = 0;
      for (int64_t i = 0; classes > 1 && i < classes; ++i) {
        class_logits.push_back(uniform() * 4 - 2);
        sum += std::exp(class_logits.back());
      }
      for (int64_t i = 0; classes > 1 && i < classes; ++i) {
        const size_t at = row * static_cast<size_t>(classes) + static_cast<size_t>(i);
        probabilities.push_back(static_cast<float>(std::exp(class_logits[at]) / sum));
      }
    }
  }

  MetricBatch batch(size_t begin, size_t end) const {
    const auto part = [&](const auto& values, size_t columns = 1) {
      using Value = typename std::decay_t<decltype(values)>::value_type;
      if (values.empty()) return std::span<const Value>();
      return std::span<const Value>(values).subspan(begin * columns, (end - begin) * columns);
    };
    const auto of_row = static_cast<size_t>(classes);
    return {.predictions = part(predictions),
            .labels = part(labels),
            .logits = part(logits),
            .weights = part(weights),
            .groups = part(groups),
            .classes = classes,
            .probabilities = part(probabilities, of_row),
            .class_logits = part(class_logits, of_row),
            .ranks = part(ranks)};
  }
};

struct Case {
  std::function<std::unique_ptr<Metric>()> make;
  int64_t classes = 1;
  // The value does not depend on how rows are divided: `kRows` keeps the rows themselves, `kCounts`
  // adds up weights, exactly where these are integers.
  enum { kNever, kCounts, kRows } exact = kNever;
};

const Case kCases[] = {
    {[] { return make_exact_auc(); }, 1, Case::kRows},
    {[] { return make_binned_auc(200); }, 1, Case::kCounts},
    {[] { return make_grouped_auc(); }, 1, Case::kRows},
    {[] { return make_xauc(); }, 1, Case::kRows},
    {[] { return make_xauc_in_batch(); }},
    {[] { return make_grouped_xauc(); }, 1, Case::kRows},
    {[] { return make_ndcg_at_k(3); }, 1, Case::kRows},
    {[] { return make_multiclass_auc(3, 0, ClassAverage::kMacro); }, 3, Case::kRows},
    {[] { return make_multiclass_auc(3, 50, ClassAverage::kWeighted); }, 3, Case::kCounts},
    {[] { return make_top_k_accuracy(2); }, 3, Case::kCounts},
    {[] { return make_class_log_loss(); }, 3},
    {[] { return make_loss_metric(losses::BinaryCrossEntropy{0.1f}, 2.0, "loss"); }},
    {[] {
      return make_loss_metric(losses::BinaryFocalLoss{2.0f, 0.3f}, 1.0, "loss");
    }},
    {[] { return make_loss_metric(losses::SoftmaxCrossEntropy{0.1f}, 1.0, "loss"); }, 3},
    {[] { return make_loss_metric(losses::L2Loss{}, 1.0, "loss"); }},
    {[] { return make_loss_metric(losses::JrcLoss{0.5f}, 1.0, "loss"); }, 2},
    {[] { return make_loss_metric(losses::LambdaRankLoss{}, 1.0, "loss"); }},
    {[] { return make_recall_at_k(3); }, 1, Case::kCounts},
    {[] { return make_rank_loss(2.0, "loss"); }},
    {[] { return make_log_loss(); }},
    {[] { return make_mean_absolute_error(); }},
    {[] { return make_mean_squared_error(); }},
    {[] { return make_accuracy(0.5f); }, 1, Case::kCounts},
    {[] { return make_mean_label(); }, 1, Case::kCounts},
    {[] { return make_mean_prediction(); }},
    {[] { return make_normalized_entropy(1e-7); }},
    {[] { return make_calibration(); }},
};

std::string bytes_of(const Metric& metric) {
  ByteWriter writer;
  metric.save(writer);
  return std::move(writer).bytes();
}

void restore(Metric& metric, std::string_view bytes) {
  ByteReader reader(bytes, "a metric");
  metric.restore(reader);
  reader.end();
}

uint64_t bits(double value) { return std::bit_cast<uint64_t>(value); }

TEST(SavedMetrics, MergeTheSameAsTheMetricsThatTheyWere) {
  constexpr size_t kCount = 500;
  for (const Case& one : kCases) {
    for (const size_t parts : {1, 2, 3, 8, 40}) {
      for (const bool weighted : {false, true}) {
        const SavedMetricsRows rows(kCount, one.classes, weighted, parts);
        const auto merged = one.make(), restored = one.make(), whole = one.make();
        for (size_t part = 0; part < parts; ++part) {
          // Unequal parts, some without rows, in two batches each.
          const auto border = [&](size_t i) { return kCount * i * i / (parts * parts); };
          const auto metric = one.make();
          const size_t begin = border(part), end = border(part + 1), middle = (begin + end) / 2;
          metric->add(rows.batch(begin, middle));
          metric->add(rows.batch(middle, end));
          const auto copy = one.make();
          copy->add(rows.batch(0, 10));  // is replaced
          restore(*copy, bytes_of(*metric));
          EXPECT_EQ(bytes_of(*copy), bytes_of(*metric));
          merged->merge(*metric);
          restored->merge(*copy);
        }
        whole->add(rows.batch(0, kCount));
        ASSERT_FALSE(std::isnan(merged->value())) << merged->name();
        EXPECT_EQ(bits(restored->value()), bits(merged->value())) << merged->name() << " " << parts;
        if (one.exact == Case::kRows || (one.exact == Case::kCounts && !weighted)) {
          EXPECT_EQ(bits(restored->value()), bits(whole->value()))
              << merged->name() << " " << parts;
        }
      }
    }
  }
}

TEST(SavedMetrics, WithoutRowsMergeAsNothing) {
  for (const Case& one : kCases) {
    const auto empty = one.make(), metric = one.make();
    restore(*empty, bytes_of(*one.make()));
    EXPECT_TRUE(std::isnan(empty->value())) << empty->name();
    metric->add(SavedMetricsRows(50, one.classes, true, 1).batch(0, 50));
    const double value = metric->value();
    metric->merge(*empty);
    EXPECT_EQ(bits(metric->value()), bits(value)) << metric->name();
  }
}

// Damage that the bytes' length or values give away throws; other damage gives another value.
TEST(SavedMetrics, DamagedBytesThrowOrGiveSomeValue) {
  for (const Case& one : kCases) {
    const auto metric = one.make();
    metric->add(SavedMetricsRows(20, one.classes, true, 2).batch(0, 20));
    const std::string bytes = bytes_of(*metric);
    for (size_t size = 0; size < bytes.size(); ++size)
      EXPECT_THROW(restore(*one.make(), bytes.substr(0, size)), Error) << metric->name();
    EXPECT_THROW(restore(*one.make(), bytes + "x"), Error) << metric->name();
    for (size_t at = 0; at < bytes.size(); ++at) {
      for (const int flipped : {0x01, 0x80, 0xff}) {
        std::string damaged = bytes;
        damaged[at] = static_cast<char>(damaged[at] ^ flipped);
        const auto victim = one.make();
        try {
          restore(*victim, damaged);
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::kCorruption);
          continue;
        }
        victim->value();
        victim->merge(*metric);
        victim->value();
      }
    }
  }
}

TEST(SavedMetrics, OfOtherSettingsAreRefused) {
  EXPECT_THROW(restore(*make_binned_auc(100), bytes_of(*make_binned_auc(200))), Error);
  const std::string three = bytes_of(*make_multiclass_auc(3, 50, ClassAverage::kMacro));
  EXPECT_THROW(restore(*make_multiclass_auc(4, 50, ClassAverage::kMacro), three), Error);
}

}  // namespace
}  // namespace emblem
