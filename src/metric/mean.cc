#include <algorithm>
#include <cmath>
#include <limits>

#include "emblem/error.h"
#include "metric/kinds.h"

namespace emblem {
namespace {

// Probabilities in float round to 0 and 1; as the field does, those rows count as this far from
// certain.
constexpr double kCertain = 1e-7;

struct CrossEntropy {
  double least = kCertain;  // of a probability, and of its distance from 1
  double largest_logit = std::numeric_limits<double>::infinity();

  void check(const MetricBatch& batch, const std::string& name) const {
    for (size_t row = 0; row < batch.labels.size(); ++row) {
      EMBLEM_REQUIRE(batch.labels[row] >= 0.0f && batch.labels[row] <= 1.0f, "metric ", name,
                     " needs labels in [0, 1], but row ", row, " of the batch has label ",
                     batch.labels[row]);
      EMBLEM_REQUIRE(!batch.logits.empty() ||
                         (batch.predictions[row] >= 0.0f && batch.predictions[row] <= 1.0f),
                     "metric ", name, " needs probabilities in [0, 1], but row ", row,
                     " of the batch has prediction ", batch.predictions[row]);
    }
  }

  double operator()(const MetricBatch& batch, size_t row) const {
    const double label = batch.labels[row];
    if (!batch.logits.empty()) {
      const double logit = std::clamp<double>(batch.logits[row], -largest_logit, largest_logit);
      return std::max(logit, 0.0) - logit * label + std::log1p(std::exp(-std::abs(logit)));
    }
    const double p = std::clamp<double>(batch.predictions[row], least, 1.0 - least);
    return -(label * std::log(p) + (1.0 - label) * std::log1p(-p));
  }
};

struct AnyNumber {
  void check(const MetricBatch&, const std::string&) const {}
};

struct AbsoluteError : AnyNumber {
  double operator()(const MetricBatch& batch, size_t row) const {
    return std::abs(static_cast<double>(batch.predictions[row]) - batch.labels[row]);
  }
};

struct SquaredError : AnyNumber {
  double operator()(const MetricBatch& batch, size_t row) const {
    const double difference = static_cast<double>(batch.predictions[row]) - batch.labels[row];
    return difference * difference;
  }
};

struct Hit {
  float threshold;

  void check(const MetricBatch& batch, const std::string& name) const {
    for (const float label : batch.labels) {
      EMBLEM_REQUIRE(label >= 0.0f && label <= 1.0f, "metric ", name,
                     " needs labels in [0, 1], but found ", label);
    }
  }
  double operator()(const MetricBatch& batch, size_t row) const {
    const double label = batch.labels[row];
    return batch.predictions[row] > threshold ? label : 1.0 - label;
  }
};

struct Label : AnyNumber {
  double operator()(const MetricBatch& batch, size_t row) const { return batch.labels[row]; }
};

struct Prediction : AnyNumber {
  double operator()(const MetricBatch& batch, size_t row) const { return batch.predictions[row]; }
};

template <class OfRow>
class Mean final : public Metric {
 public:
  explicit Mean(std::string name, OfRow of_row = {}) : Metric(std::move(name)), of_row_(of_row) {}

  double value() override { return sum_.mean(); }
  void merge(const Metric& other) override { sum_.add(same_kind<Mean>(other).sum_); }
  void save(ByteWriter& bytes) const override { sum_.save(bytes); }
  void restore(ByteReader& bytes) override { sum_.restore(bytes); }

 protected:
  void check(const MetricBatch& batch) const override { of_row_.check(batch, name()); }
  void accumulate(const MetricBatch& batch) override {
    for (size_t row = 0; row < batch.labels.size(); ++row) {
      sum_.add(of_row_(batch, row), batch.weight(row));
    }
  }

 private:
  OfRow of_row_;
  WeightedMean sum_;
};

class NormalizedEntropy final : public Metric {
 public:
  NormalizedEntropy(double eta, std::string name)
      : Metric(std::move(name)), loss_of_{eta, std::log1p(-eta) - std::log(eta)} {}

  double value() override {
    const double rate = label_.mean();
    if (!(rate > 0.0 && rate < 1.0)) return kUndefined;
    return loss_.mean() / -(rate * std::log(rate) + (1.0 - rate) * std::log1p(-rate));
  }
  void merge(const Metric& other) override {
    const auto& from = same_kind<NormalizedEntropy>(other);
    loss_.add(from.loss_);
    label_.add(from.label_);
  }
  void save(ByteWriter& bytes) const override {
    loss_.save(bytes);
    label_.save(bytes);
  }
  void restore(ByteReader& bytes) override {
    loss_.restore(bytes);
    label_.restore(bytes);
  }

 protected:
  void check(const MetricBatch& batch) const override { loss_of_.check(batch, name()); }
  void accumulate(const MetricBatch& batch) override {
    for (size_t row = 0; row < batch.labels.size(); ++row) {
      loss_.add(loss_of_(batch, row), batch.weight(row));
      label_.add(batch.labels[row], batch.weight(row));
    }
  }

 private:
  CrossEntropy loss_of_;
  WeightedMean loss_, label_;
};

class Calibration final : public Metric {
 public:
  using Metric::Metric;

  double value() override {
    return label_.mean() != 0.0 ? prediction_.mean() / label_.mean() : kUndefined;
  }
  void merge(const Metric& other) override {
    const auto& from = same_kind<Calibration>(other);
    prediction_.add(from.prediction_);
    label_.add(from.label_);
  }
  void save(ByteWriter& bytes) const override {
    prediction_.save(bytes);
    label_.save(bytes);
  }
  void restore(ByteReader& bytes) override {
    prediction_.restore(bytes);
    label_.restore(bytes);
  }

 protected:
  void accumulate(const MetricBatch& batch) override {
    for (size_t row = 0; row < batch.labels.size(); ++row) {
      prediction_.add(batch.predictions[row], batch.weight(row));
      label_.add(batch.labels[row], batch.weight(row));
    }
  }

 private:
  WeightedMean prediction_, label_;
};

}  // namespace

std::unique_ptr<Metric> make_log_loss(std::string name) {
  return std::make_unique<Mean<CrossEntropy>>(std::move(name));
}

std::unique_ptr<Metric> make_mean_absolute_error(std::string name) {
  return std::make_unique<Mean<AbsoluteError>>(std::move(name));
}

std::unique_ptr<Metric> make_mean_squared_error(std::string name) {
  return std::make_unique<Mean<SquaredError>>(std::move(name));
}

std::unique_ptr<Metric> make_accuracy(float threshold, std::string name) {
  return std::make_unique<Mean<Hit>>(std::move(name), Hit{threshold});
}

std::unique_ptr<Metric> make_mean_label(std::string name) {
  return std::make_unique<Mean<Label>>(std::move(name));
}

std::unique_ptr<Metric> make_mean_prediction(std::string name) {
  return std::make_unique<Mean<Prediction>>(std::move(name));
}

std::unique_ptr<Metric> make_normalized_entropy(double eta, std::string name) {
  EMBLEM_REQUIRE(eta >= 0.0 && eta < 0.5, "metric normalized_entropy has eta: ", eta,
                 ", but it must be in [0, 0.5)");
  return std::make_unique<NormalizedEntropy>(eta, std::move(name));
}

std::unique_ptr<Metric> make_calibration(std::string name) {
  return std::make_unique<Calibration>(std::move(name));
}

MetricKind mean_absolute_error_metric() {
  return {.name = "mean_absolute_error",
          .direction = MetricDirection::kLowerIsBetter,
          .make = make_of_number<make_mean_absolute_error>};
}

MetricKind mean_squared_error_metric() {
  return {.name = "mean_squared_error",
          .direction = MetricDirection::kLowerIsBetter,
          .make = make_of_number<make_mean_squared_error>};
}

MetricKind mean_label_metric() {
  return {.name = "mean_label",
          .direction = MetricDirection::kNone,
          .make = make_of_number<make_mean_label>};
}

MetricKind mean_prediction_metric() {
  return {.name = "mean_prediction",
          .direction = MetricDirection::kNone,
          .make = make_of_number<make_mean_prediction>};
}

MetricKind calibration_metric() {
  return {.name = "calibration",
          .direction = MetricDirection::kNone,
          .make = make_of_number<make_calibration>};
}

MetricKind normalized_entropy_metric() {
  return {.name = "normalized_entropy",
          .direction = MetricDirection::kLowerIsBetter,
          .problem = need_two_outcomes,
          .make = [](const config::MetricConfig& metric, const MeasuredHead&, std::string name) {
            return make_normalized_entropy(metric.normalized_entropy().eta(), std::move(name));
          }};
}

}  // namespace emblem
