// Losses as metrics: means over rows, computed in double precision from logits.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "emblem/error.h"
#include "train/metrics/metrics.h"

namespace emblem {
namespace {

double binary_cross_entropy(double logit, double label) {
  return std::max(logit, 0.0) - logit * label + std::log1p(std::exp(-std::abs(logit)));
}

class LossMetric : public Metric {
 public:
  LossMetric(std::string name, double factor) : Metric(std::move(name)), factor_(factor) {}

  double value() override { return weight_ > 0 ? factor_ * sum_ / weight_ : kUndefined; }
  void merge(const Metric& other) override {
    const auto& from = same_kind<LossMetric>(other);
    sum_ += from.sum_;
    weight_ += from.weight_;
  }
  void save(ByteWriter& bytes) const override { bytes.add(sum_).add(weight_); }
  void restore(ByteReader& bytes) override {
    bytes.read(sum_);
    bytes.read(weight_);
  }

 protected:
  // Of every row.
  virtual void losses(const MetricBatch& batch, std::vector<double>& out) const = 0;

  void accumulate(const MetricBatch& batch) override {
    std::vector<double> of_rows(batch.labels.size());
    losses(batch, of_rows);
    for (size_t row = 0; row < of_rows.size(); ++row) {
      sum_ += of_rows[row] * batch.weight(row);
      weight_ += batch.weight(row);
    }
  }

  void need_logits(const MetricBatch& batch) const {
    EMBLEM_REQUIRE(batch.logits.size() == batch.labels.size(), "loss ", name(),
                   " needs a logit a row, but the batch has ", batch.logits.size(), " for ",
                   batch.labels.size());
  }
  void need_class_logits(const MetricBatch& batch) const {
    EMBLEM_REQUIRE(batch.classes > 1 && !batch.class_logits.empty(), "loss ", name(),
                   " needs a logit for each class");
    for (const float label : batch.labels) {
      EMBLEM_REQUIRE(label >= 0 && label < static_cast<float>(batch.classes), "loss ", name(),
                     " needs labels 0 to ", batch.classes - 1, ", but found ", label);
    }
  }

 private:
  double factor_;
  double sum_ = 0, weight_ = 0;
};

class BinaryCrossEntropyLoss final : public LossMetric {
 public:
  BinaryCrossEntropyLoss(std::string name, double factor, double smoothing)
      : LossMetric(std::move(name), factor), smoothing_(smoothing) {}

 protected:
  void check(const MetricBatch& batch) const override { need_logits(batch); }
  void losses(const MetricBatch& batch, std::vector<double>& out) const override {
    for (size_t row = 0; row < out.size(); ++row) {
      const double label = batch.labels[row] * (1.0 - smoothing_) + 0.5 * smoothing_;
      out[row] = binary_cross_entropy(batch.logits[row], label);
    }
  }

 private:
  double smoothing_;
};

class FocalLoss final : public LossMetric {
 public:
  FocalLoss(std::string name, double factor, double gamma, double alpha)
      : LossMetric(std::move(name), factor), gamma_(gamma), alpha_(alpha) {}

 protected:
  void check(const MetricBatch& batch) const override { need_logits(batch); }
  void losses(const MetricBatch& batch, std::vector<double>& out) const override {
    for (size_t row = 0; row < out.size(); ++row) {
      const double label = batch.labels[row], logit = batch.logits[row];
      const double p = 1.0 / (1.0 + std::exp(-logit));
      const double weight = alpha_ * label * std::pow(1.0 - p, gamma_) +
                            (1.0 - alpha_) * (1.0 - label) * std::pow(p, gamma_);
      out[row] = weight * binary_cross_entropy(logit, label);
    }
  }

 private:
  double gamma_, alpha_;
};

class SoftmaxCrossEntropyLoss final : public LossMetric {
 public:
  SoftmaxCrossEntropyLoss(std::string name, double factor, double smoothing)
      : LossMetric(std::move(name), factor), smoothing_(smoothing) {}

 protected:
  void check(const MetricBatch& batch) const override { need_class_logits(batch); }
  void losses(const MetricBatch& batch, std::vector<double>& out) const override {
    for (size_t row = 0; row < out.size(); ++row) {
      const auto logits = batch.class_logits.subspan(row * batch.classes, batch.classes);
      double mean = 0;
      for (const float logit : logits) mean += logit / static_cast<double>(batch.classes);
      const double target =
          (1.0 - smoothing_) * logits[static_cast<size_t>(batch.labels[row])] + smoothing_ * mean;
      out[row] = log_sum_exp(logits) - target;
    }
  }

 private:
  double smoothing_;
};

// In units of the labels' deviation, as in training.
class L2Loss final : public LossMetric {
 public:
  L2Loss(std::string name, double factor, double deviation)
      : LossMetric(std::move(name), factor), deviation_(deviation) {}

 protected:
  void losses(const MetricBatch& batch, std::vector<double>& out) const override {
    for (size_t row = 0; row < out.size(); ++row) {
      const double difference = static_cast<double>(batch.predictions[row]) - batch.labels[row];
      out[row] = difference * difference / (deviation_ * deviation_);
    }
  }

 private:
  double deviation_;
};

// Cross entropy, and the rank of a row among the rows of its session in the batch that have the
// other label.
class JrcLoss final : public LossMetric {
 public:
  JrcLoss(std::string name, double factor, double alpha)
      : LossMetric(std::move(name), factor), alpha_(alpha) {}

 protected:
  void check(const MetricBatch& batch) const override {
    need_class_logits(batch);
    check_groups(batch);
    EMBLEM_REQUIRE(batch.classes == 2, "loss ", name(), " needs 2 classes, but the model has ",
                   batch.classes);
  }
  void losses(const MetricBatch& batch, std::vector<double>& out) const override {
    // By label: the sum over the session's rows of that label of e^(logit of the other label).
    struct Session {
      double others[2] = {0, 0};
    };
    std::unordered_map<int64_t, Session> sessions;
    const auto logit = [&](size_t row, size_t of) {
      return static_cast<double>(batch.class_logits[row * 2 + of]);
    };
    const auto label_of = [&](size_t row) { return batch.labels[row] != 0.0f ? size_t{1} : 0; };
    for (size_t row = 0; row < out.size(); ++row) {
      const size_t label = label_of(row);
      sessions[batch.groups[row]].others[label] += std::exp(logit(row, 1 - label));
    }
    for (size_t row = 0; row < out.size(); ++row) {
      const size_t label = label_of(row);
      const double own = logit(row, label);
      const double others = sessions[batch.groups[row]].others[1 - label];
      const double ranking = std::log1p(others * std::exp(-own));
      out[row] = alpha_ * binary_cross_entropy(logit(row, 1) - logit(row, 0), batch.labels[row]) +
                 (1.0 - alpha_) * ranking;
    }
  }

 private:
  double alpha_;
};

}  // namespace

std::unique_ptr<Metric> make_binary_cross_entropy(std::string name, double factor,
                                                  double label_smoothing) {
  return std::make_unique<BinaryCrossEntropyLoss>(std::move(name), factor, label_smoothing);
}

std::unique_ptr<Metric> make_binary_focal_loss(std::string name, double factor, double gamma,
                                               double alpha) {
  return std::make_unique<FocalLoss>(std::move(name), factor, gamma, alpha);
}

std::unique_ptr<Metric> make_softmax_cross_entropy(std::string name, double factor,
                                                   double label_smoothing) {
  return std::make_unique<SoftmaxCrossEntropyLoss>(std::move(name), factor, label_smoothing);
}

std::unique_ptr<Metric> make_l2_loss(std::string name, double factor, double label_deviation) {
  return std::make_unique<L2Loss>(std::move(name), factor, label_deviation);
}

std::unique_ptr<Metric> make_jrc_loss(std::string name, double factor, double alpha) {
  return std::make_unique<JrcLoss>(std::move(name), factor, alpha);
}

}  // namespace emblem
