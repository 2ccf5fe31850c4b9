// Metrics of models that predict one of several classes.
#include <algorithm>
#include <cmath>

#include "emblem/error.h"
#include "train/metrics/metrics.h"

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

  double value() override { return weight_ > 0 ? sum_ / weight_ : kUndefined; }
  void merge(const Metric& other) override {
    const auto& from = same_kind<MeanOverRows>(other);
    sum_ += from.sum_;
    weight_ += from.weight_;
  }
  void save(ByteWriter& bytes) const override { bytes.add(sum_).add(weight_); }
  void restore(ByteReader& bytes) override {
    bytes.read(sum_);
    bytes.read(weight_);
  }

 protected:
  virtual double of_row(const MetricBatch& batch, size_t row) const = 0;
  void check(const MetricBatch& batch) const override { check_class_labels(batch, name()); }
  void accumulate(const MetricBatch& batch) override {
    for (size_t row = 0; row < batch.labels.size(); ++row) {
      sum_ += of_row(batch, row) * batch.weight(row);
      weight_ += batch.weight(row);
    }
  }

 private:
  double sum_ = 0, weight_ = 0;
};

class TopKAccuracy final : public MeanOverRows {
 public:
  TopKAccuracy(int64_t k, std::string name) : MeanOverRows(std::move(name)), k_(k) {}

 protected:
  double of_row(const MetricBatch& batch, size_t row) const override {
    const auto scores = batch.probabilities.subspan(row * batch.classes, batch.classes);
    const auto label = static_cast<size_t>(batch.labels[row]);
    int64_t before = 0;  // classes that rank before the label's; of equal ones the lower number
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
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - most);
  return most + std::log(sum);
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

}  // namespace emblem
