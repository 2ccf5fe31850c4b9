#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "core/math/random.h"
#include "metric/metric.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kClasses = 4;

struct ClassesRows {
  std::vector<float> predictions, labels, probabilities, logits;

  static ClassesRows random(uint64_t seed, int64_t count) {
    Random random{seed};
    ClassesRows rows;
    for (int64_t i = 0; i < count; ++i) {
      double sum = 0;
      for (int64_t c = 0; c < kClasses; ++c) {
        rows.logits.push_back(static_cast<float>(random.below(5)) - 2.0f);
        sum += std::exp(rows.logits.back());
      }
      for (int64_t c = 0; c < kClasses; ++c)
        rows.probabilities.push_back(
            static_cast<float>(std::exp(rows.logits[i * kClasses + c]) / sum));
      rows.predictions.push_back(rows.probabilities[i * kClasses + 1]);
      rows.labels.push_back(static_cast<float>(random.below(kClasses - 1)));  // none of the last
    }
    return rows;
  }
  MetricBatch all() const {
    return {.predictions = predictions,
            .labels = labels,
            .classes = kClasses,
            .probabilities = probabilities,
            .class_logits = logits};
  }
};

double naive_auc(const ClassesRows& rows, int64_t of, double* positives) {
  double won = 0, pairs = 0;
  *positives = 0;
  for (size_t i = 0; i < rows.labels.size(); ++i) {
    if (rows.labels[i] != static_cast<float>(of)) continue;
    ++*positives;
    for (size_t j = 0; j < rows.labels.size(); ++j) {
      if (rows.labels[j] == static_cast<float>(of)) continue;
      const float a = rows.probabilities[i * kClasses + of];
      const float b = rows.probabilities[j * kClasses + of];
      won += a > b ? 1.0 : a == b ? 0.5 : 0.0;
      ++pairs;
    }
  }
  return won / pairs;
}

TEST(MulticlassAuc, IsTheMeanOfEachClassAgainstTheRest) {
  const ClassesRows rows = ClassesRows::random(5, 200);
  double macro = 0, weighted = 0, all = 0;
  for (int64_t c = 0; c < kClasses - 1; ++c) {
    double positives = 0;
    const double auc = naive_auc(rows, c, &positives);
    macro += auc / (kClasses - 1);
    weighted += auc * positives;
    all += positives;
  }
  const auto value = [&](int64_t thresholds, ClassAverage average) {
    auto metric = make_multiclass_auc(kClasses, thresholds, average);
    metric->add(rows.all());
    return metric->value();
  };
  EXPECT_NEAR(value(0, ClassAverage::kMacro), macro, 1e-12) << "the class without rows is skipped";
  EXPECT_NEAR(value(0, ClassAverage::kWeighted), weighted / all, 1e-12);
  EXPECT_NEAR(value(4000, ClassAverage::kMacro), macro, 2e-3);
}

TEST(MulticlassAuc, IsUndefinedWhenAllRowsAreOfOneClass) {
  ClassesRows rows = ClassesRows::random(5, 20);
  std::fill(rows.labels.begin(), rows.labels.end(), 2.0f);
  auto metric = make_multiclass_auc(kClasses, 200, ClassAverage::kMacro);
  metric->add(rows.all());
  EXPECT_TRUE(std::isnan(metric->value()));
}

TEST(MulticlassAuc, DoesNotDependOnTheOrderOfMerging) {
  const ClassesRows first = ClassesRows::random(1, 50), second = ClassesRows::random(2, 60);
  const auto made = [] { return make_multiclass_auc(kClasses, 100, ClassAverage::kWeighted); };
  auto a = made(), b = made(), ab = made(), ba = made();
  a->add(first.all()), b->add(second.all());
  ab->merge(*a), ab->merge(*b);
  ba->merge(*b), ba->merge(*a);
  EXPECT_EQ(ab->value(), ba->value());
}

TEST(TopKAccuracy, CountsTheLabelAmongTheKMostProbable) {
  const ClassesRows rows = ClassesRows::random(9, 150);
  for (const int64_t k : {1, 2, 4}) {
    double hits = 0;
    for (size_t i = 0; i < rows.labels.size(); ++i) {
      std::vector<int64_t> order = {0, 1, 2, 3};
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return rows.probabilities[i * kClasses + a] > rows.probabilities[i * kClasses + b];
      });
      hits += std::find(order.begin(), order.begin() + k, static_cast<int64_t>(rows.labels[i])) !=
              order.begin() + k;
    }
    auto metric = make_top_k_accuracy(k);
    metric->add(rows.all());
    EXPECT_NEAR(metric->value(), hits / 150, 1e-12) << k;
  }
}

TEST(ClassLogLoss, IsTheSameFromLogitsAndFromProbabilities) {
  const ClassesRows rows = ClassesRows::random(4, 30);
  auto exact = make_class_log_loss(), rounded = make_class_log_loss();
  exact->add(rows.all());
  MetricBatch batch = rows.all();
  batch.class_logits = {};
  rounded->add(batch);
  EXPECT_NEAR(exact->value(), rounded->value(), 1e-6);
}

TEST(ClassMetrics, RejectLabelsThatAreNoClass) {
  ClassesRows rows = ClassesRows::random(4, 3);
  rows.labels[2] = 4;
  EXPECT_THAT([&] { make_top_k_accuracy(1)->add(rows.all()); },
              ThrowsMessage<Error>(HasSubstr("needs labels 0 to 3, but row 2")));
  rows.labels[2] = 0.5f;
  EXPECT_THAT([&] { make_class_log_loss()->add(rows.all()); },
              ThrowsMessage<Error>(HasSubstr("has label 0.5")));
}

}  // namespace
}  // namespace emblem
