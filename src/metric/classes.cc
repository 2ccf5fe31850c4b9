// Metrics of models that predict one of several classes.
#include <algorithm>
#include <cmath>

#include "core/text/text.h"
#include "emblem/error.h"
#include "metric/kinds.h"

namespace emblem {
namespace {

void check_class_labels(const MetricBatch& batch, const std::string& name) {
  EMBLEM_REQUIRE(batch.classes > 1, "metric ", name,
                 " needs the probabilities of several classes, but the model has one output");
  for (size_t row = 0; row < batch.labels.size(); ++row) {
    const float label = batch.labels[row];
    EMBLEM_REQUIRE(
        label >= 0.0f && label < static_cast<float>(batch.classes) && label == std::floor(label),
        "metric ", name, " needs labels 0 to ", batch.classes - 1, ", but row ", row,
        " of the batch has label ", label);
  }
}

class MulticlassAuc final : public Metric {
 public:
  MulticlassAuc(int64_t classes, int64_t thresholds, ClassAverage average, std::string name)
      : Metric(std::move(name)), average_(average), positives_(classes) {
    for (int64_t i = 0; i < classes; ++i)
      areas_.push_back(thresholds == 0 ? make_exact_auc(this->name())
                                       : make_binned_auc(thresholds, this->name()));
  }

  double value() override {
    double sum = 0, weights = 0;
    for (size_t i = 0; i < areas_.size(); ++i) {
      const double area = areas_[i]->value();
      if (std::isnan(area)) continue;
      const double weight = average_ == ClassAverage::kMacro ? 1.0 : positives_[i];
      sum += weight * area;
      weights += weight;
    }
    return weights > 0 ? sum / weights : kUndefined;
  }

  void merge(const Metric& other) override {
    const auto& from = same_kind<MulticlassAuc>(other);
    EMBLEM_REQUIRE(from.areas_.size() == areas_.size(), "cannot merge metric ", name(), " of ",
                   from.areas_.size(), " classes into one of ", areas_.size());
    for (size_t i = 0; i < areas_.size(); ++i) {
      areas_[i]->merge(*from.areas_[i]);
      positives_[i] += from.positives_[i];
    }
  }

  void save(ByteWriter& bytes) const override {
    bytes.add_all(positives_);
    for (const auto& area : areas_) area->save(bytes);
  }
  void restore(ByteReader& bytes) override {
    bytes.read_all(positives_);
    if (positives_.size() != areas_.size())
      bytes.fail(cat("an AUC of ", positives_.size(), " classes, not ", areas_.size()));
    for (const auto& area : areas_) area->restore(bytes);
  }

 protected:
  void check(const MetricBatch& batch) const override {
    EMBLEM_REQUIRE(batch.classes == static_cast<int64_t>(areas_.size()), "metric ", name(), " of ",
                   areas_.size(), " classes got probabilities of ", batch.classes);
    check_class_labels(batch, name());
  }
  void accumulate(const MetricBatch& batch) override {
    const size_t rows = batch.labels.size();
    std::vector<float> predictions(rows), labels(rows);
    for (size_t i = 0; i < areas_.size(); ++i) {
      for (size_t row = 0; row < rows; ++row) {
        predictions[row] = batch.probabilities[row * areas_.size() + i];
        labels[row] = batch.labels[row] == static_cast<float>(i) ? 1.0f : 0.0f;
        if (labels[row] != 0.0f) positives_[i] += batch.weight(row);
      }
      areas_[i]->add({.predictions = predictions, .labels = labels, .weights = batch.weights});
    }
  }

 private:
  ClassAverage average_;
  std::vector<std::unique_ptr<Metric>> areas_;  // by class
  std::vector<double> positives_;               // weight of the rows of each class
};

// The mean over rows of what a class gives.
class MeanOverRows : public Metric {
 public:
  using Metric::Metric;

  double value() override { return mean_.mean(); }
  void merge(const Metric& other) override { mean_.add(same_kind<MeanOverRows>(other).mean_); }
  void save(ByteWriter& bytes) const override { mean_.save(bytes); }
  void restore(ByteReader& bytes) override { mean_.restore(bytes); }

 protected:
  virtual double of_row(const MetricBatch& batch, size_t row) const = 0;
  void check(const MetricBatch& batch) const override { check_class_labels(batch, name()); }
  void accumulate(const MetricBatch& batch) override {
    for (size_t row = 0; row < batch.labels.size(); ++row)
      mean_.add(of_row(batch, row), batch.weight(row));
  }

 private:
  WeightedMean mean_;
};

class TopKAccuracy final : public MeanOverRows {
 public:
  TopKAccuracy(int64_t k, std::string name) : MeanOverRows(std::move(name)), k_(k) {}

 protected:
  double of_row(const MetricBatch& batch, size_t row) const override {
    const auto scores = batch.probabilities.subspan(row * batch.classes, batch.classes);
    const auto label = static_cast<size_t>(batch.labels[row]);
    int64_t before = 0;  // classes that rank before the label's; among equal ones the lower number
    for (size_t i = 0; i < scores.size(); ++i)
      before += scores[i] > scores[label] || (scores[i] == scores[label] && i < label);
    return before < k_ ? 1.0 : 0.0;
  }

 private:
  int64_t k_;
};

class ClassLogLoss final : public MeanOverRows {
 public:
  using MeanOverRows::MeanOverRows;

 protected:
  double of_row(const MetricBatch& batch, size_t row) const override {
    const auto label = static_cast<size_t>(batch.labels[row]);
    if (batch.class_logits.empty()) {
      const double p = batch.probabilities[row * batch.classes + label];
      return -std::log(std::max(p, 1e-7));
    }
    const auto logits = batch.class_logits.subspan(row * batch.classes, batch.classes);
    return log_sum_exp(logits) - logits[label];
  }
};

}  // namespace

double log_sum_exp(std::span<const float> logits) {
  return losses::log_sum_exp([logits](int64_t c) { return logits[static_cast<size_t>(c)]; },
                             static_cast<int64_t>(logits.size()));
}

std::unique_ptr<Metric> make_multiclass_auc(int64_t classes, int64_t thresholds,
                                            ClassAverage average, std::string name) {
  return std::make_unique<MulticlassAuc>(classes, thresholds, average, std::move(name));
}

std::unique_ptr<Metric> make_top_k_accuracy(int64_t k, std::string name) {
  EMBLEM_REQUIRE(k >= 1, "metric accuracy has top_k: ", k, ", but it must be at least 1");
  return std::make_unique<TopKAccuracy>(k, std::move(name));
}

std::unique_ptr<Metric> make_class_log_loss(std::string name) {
  return std::make_unique<ClassLogLoss>(std::move(name));
}

MetricKind multiclass_auc_metric() {
  return {
      .name = "multiclass_auc",
      .problem = [](const config::MetricConfig& metric, const MeasuredHead& head) -> std::string {
        const std::string& average = metric.multiclass_auc().average();
        if (head.kind != HeadKind::kClass) return "is for num_class of at least 2; use auc";
        return average == "macro" || average == "weighted"
                   ? ""
                   : cat("has average: \"", printable(average), "\", expected macro or weighted");
      },
      .make =
          [](const config::MetricConfig& metric, const MeasuredHead& head, std::string name) {
            const bool macro = metric.multiclass_auc().average() == "macro";
            return make_multiclass_auc(head.classes, metric.multiclass_auc().thresholds(),
                                       macro ? ClassAverage::kMacro : ClassAverage::kWeighted,
                                       std::move(name));
          }};
}

MetricKind accuracy_metric() {
  return {
      .name = "accuracy",
      .problem = need_classes,
      .make = [](const config::MetricConfig& metric, const MeasuredHead& head, std::string name) {
        const config::Accuracy& settings = metric.accuracy();
        if (head.kind != HeadKind::kClass)
          return make_accuracy(settings.threshold(), std::move(name));
        EMBLEM_REQUIRE(settings.top_k() < std::max<int64_t>(2, head.classes), "metric ", name,
                       " has top_k: ", settings.top_k(), ", but there are ", head.classes,
                       " classes; use a smaller one");
        return make_top_k_accuracy(settings.top_k(), std::move(name));
      }};
}

MetricKind log_loss_metric() {
  return {.name = "log_loss",
          .direction = MetricDirection::kLowerIsBetter,
          .problem = need_classes,
          .make = [](const config::MetricConfig&, const MeasuredHead& head, std::string name) {
            return head.classes > 2 ? make_class_log_loss(std::move(name))
                                    : make_log_loss(std::move(name));
          }};
}

}  // namespace emblem
