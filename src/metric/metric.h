// metric/metric.h - how good predictions are. A metric is fed batch by batch and gives one
// number under one name; the same rows give the same number, whatever the batches were.
//
// Thread-compatible: const methods may run concurrently; others need a lock.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/files/byte_io.h"
#include "emblem/error.h"
#include "loss/candidate_rank.h"
#include "loss/losses.h"

namespace emblem {

// What a metric says when it is not defined, like the AUC of rows that all have the same label.
inline constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

// One entry per row in every span that is not empty, or `classes` where it says so.
struct MetricBatch {
  // The probability of label 1, or the number that the model predicts. Of several classes, that of
  // class 1; it means something only where there are two.
  std::span<const float> predictions;
  std::span<const float> labels;
  // May be empty; makes losses exact where probabilities round to 0 or 1. Of two classes, the
  // difference of their logits.
  std::span<const float> logits;
  std::span<const float> weights;        // may be empty: all 1
  std::span<const int64_t> groups;       // may be empty unless the metric groups
  int64_t classes = 1;                   // above 1: the label is the number of a class
  std::span<const float> probabilities;  // [rows, classes]; empty for one class
  std::span<const float> class_logits;   // [rows, classes], or empty
  // Instead of predictions where a model ranks candidates; else empty.
  std::span<const CandidateRank> ranks;

  float weight(size_t row) const { return weights.empty() ? 1.0f : weights[row]; }
};

// A weighted mean, for metrics that keep one.
struct WeightedMean {
  double sum = 0, weight = 0;

  void add(double value, double w) { sum += value * w, weight += w; }
  void add(const WeightedMean& other) { sum += other.sum, weight += other.weight; }
  double mean() const { return weight > 0 ? sum / weight : kUndefined; }

  void save(ByteWriter& bytes) const { bytes.add(sum).add(weight); }
  void restore(ByteReader& bytes) {
    bytes.read(sum);
    bytes.read(weight);
  }
};

class Metric {
 public:
  explicit Metric(std::string name) : name_(std::move(name)) {}
  virtual ~Metric() = default;

  const std::string& name() const { return name_; }

  // Throws Error when lengths differ, when anything is NaN or infinite, when a weight is negative,
  // or when the metric cannot use the values (a label outside of [0, 1] for AUC); nothing is
  // added then.
  void add(const MetricBatch& batch);

  // The value over all rows added so far; kUndefined when there is no such number. More rows
  // may follow.
  virtual double value() = 0;

  // Takes over the rows of `other`, made with the same settings, as if they had been added here.
  virtual void merge(const Metric& other) = 0;

  // Writes what value() and merge() depend on; restore() of a metric with the same settings takes
  // it over in place of its own rows. Throws kCorruption for bytes that another metric has written,
  // or none.
  virtual void save(ByteWriter& bytes) const = 0;
  virtual void restore(ByteReader& bytes) = 0;

  // Whether it keeps counts, which scale() lets weigh `factor` times as much: a binned AUC.
  virtual bool has_counts() const { return false; }
  virtual void scale(double factor);

 protected:
  virtual void check(const MetricBatch& batch) const { (void)batch; }
  virtual void accumulate(const MetricBatch& batch) = 0;
  void check_groups(const MetricBatch& batch) const;  // throws Error without a group key per row

  // `other` as the caller's own class, for merge().
  template <class Self>
  const Self& same_kind(const Metric& other) const {
    const auto* self = dynamic_cast<const Self*>(&other);
    EMBLEM_REQUIRE(self != nullptr, "cannot merge metric ", other.name(), " into ", name(),
                   ": they are of different kinds");
    return *self;
  }

 private:
  std::string name_;
};

// Exact AUC: the chance that a positive row scores above a negative one, ties counting one half.
// Scores may be any finite numbers. Keeps 8 bytes per row.
std::unique_ptr<Metric> make_exact_auc(std::string name = "auc");

// AUC from counts at `thresholds` >= 2 evenly spaced probabilities in [0, 1]: constant memory, and
// the figure that TorchEasyRec (200 thresholds) and SOK (8000) report.
std::unique_ptr<Metric> make_binned_auc(int64_t thresholds, std::string name = "auc");
// The thresholds themselves, ascending from 0 to 1. A score falls into the bin of the highest
// threshold that it reaches.
std::vector<float> auc_thresholds(int64_t count);

// The plain mean, over the groups that have both labels, of the exact AUC within each. Keeps 16
// bytes per row.
std::unique_ptr<Metric> make_grouped_auc(std::string name = "grouped_auc");

// XAUC: the share of all pairs of rows whose predictions are ordered as their labels; pairs with
// equal labels or predictions are not. Counted exactly in O(n log n), 24 bytes per row; a pair
// weighs the product of its rows' weights. Undefined when all labels are equal.
std::unique_ptr<Metric> make_xauc(std::string name = "xauc");
// The same within each batch; the mean over batches, so that it depends on the batches.
std::unique_ptr<Metric> make_xauc_in_batch(std::string name = "xauc");
// The same within each group of two rows or more; the mean over groups, weighted by their rows.
std::unique_ptr<Metric> make_grouped_xauc(std::string name = "grouped_xauc");

// Normalized discounted cumulative gain of the k best rows of each group: a row gains its label,
// divided by log2(1 + rank); rows with equal scores share the discounts of their ranks. The plain
// mean over the groups that have a label above 0. Weights do not count. Keeps 16 bytes per row.
// Without a name it is "ndcg@10" for k = 10.
std::unique_ptr<Metric> make_ndcg_at_k(int64_t k, std::string name = "");

// ---- models that rank candidates ----

// The share of rows whose own item is among the k candidates that score highest, where candidates
// with equal scores are in random order: a model that gives all the same score gets k / candidates.
// Without a name it is "recall@5" for k = 5.
std::unique_ptr<Metric> make_recall_at_k(int64_t k, std::string name = "");
// `factor` times the mean over rows of CandidateRank::loss.
std::unique_ptr<Metric> make_rank_loss(double factor, std::string name);

// ---- models of several classes ----

enum class ClassAverage { kMacro, kWeighted };  // plain, or by the rows of each class
// The AUC of each class against all others, averaged over the classes that have rows and are not
// all rows. 0 thresholds: exact.
std::unique_ptr<Metric> make_multiclass_auc(int64_t classes, int64_t thresholds,
                                            ClassAverage average,
                                            std::string name = "multiclass_auc");
// The share of rows whose label is among the k most probable classes; among equally probable ones
// the lower number counts as more probable.
std::unique_ptr<Metric> make_top_k_accuracy(int64_t k, std::string name = "accuracy");
// -ln of the probability of the label's class.
std::unique_ptr<Metric> make_class_log_loss(std::string name = "log_loss");
double log_sum_exp(std::span<const float> logits);

// ---- losses ----

// `factor` times the mean over rows, weighted by MetricBatch::weights. Where the loss compares
// rows, sessions are MetricBatch::groups, and rows compete with those of their session in the same
// batch.
std::unique_ptr<Metric> make_loss_metric(const AnyLoss& loss, double factor, std::string name);

// ---- means ----

// Means over rows, weighted by MetricBatch::weights. Log loss is in nats; accuracy counts a row as
// predicted positive when its prediction is above `threshold`.
std::unique_ptr<Metric> make_log_loss(std::string name = "log_loss");
std::unique_ptr<Metric> make_mean_absolute_error(std::string name = "mean_absolute_error");
std::unique_ptr<Metric> make_mean_squared_error(std::string name = "mean_squared_error");
std::unique_ptr<Metric> make_accuracy(float threshold, std::string name = "accuracy");
std::unique_ptr<Metric> make_mean_label(std::string name = "mean_label");
std::unique_ptr<Metric> make_mean_prediction(std::string name = "mean_prediction");

// Log loss divided by the log loss of always predicting the mean label: 1 is no better than that.
// `eta` keeps probabilities, also those of logits, away from 0 and 1. Undefined when all labels are
// equal.
std::unique_ptr<Metric> make_normalized_entropy(double eta,
                                                std::string name = "normalized_entropy");

// Mean prediction / mean label: above 1 is overconfident. Undefined when the mean label is 0.
std::unique_ptr<Metric> make_calibration(std::string name = "calibration");

}  // namespace emblem
