// train/metrics/head_metrics.h - the metrics of a head of a model, fed with its logits.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/feature/heads.h"
#include "core/memory/view.h"
#include "data/batch.h"
#include "metric/metric.h"

namespace emblem {

// The rows of a batch that could be read and have the head's label, as metrics of a head take them.
class HeadRows {
 public:
  explicit HeadRows(const HeadSpec& head) : head_(head) {}

  // `logits` are [rows, domains * classes]; those of the row's domain count. Valid until the next
  // call.
  MetricBatch of(const Batch& batch, View<const float> logits);
  // The batch with the first key of a sparse feature, 0 where a row has none, as group.
  MetricBatch grouped_by(int64_t sparse_index, const Batch& batch, MetricBatch rows);
  // Weighted as the loss of the head weighs them.
  MetricBatch weighted_as_loss(const Batch& batch, MetricBatch rows);

 private:
  void add_row(const float* logits);

  HeadSpec head_;
  std::vector<float> predictions_, labels_, logits_, weights_, probabilities_, class_logits_;
  std::vector<CandidateRank> ranks_;
  std::vector<float> loss_weights_;
  std::vector<int64_t> groups_;
};

// What an evaluation reports of a head (config/feature/metrics.h), over all rows, those outside of
// its task space included. Rows are weighted by the head's sample weights.
class HeadMetrics {
 public:
  // Throws Error for a metric that cannot be computed and for a grouping_key that is no id feature.
  HeadMetrics(const HeadSpec& head, const FeatureLayout& layout);

  // The logits of a head without metrics are not read.
  void add(const Batch& batch, View<const float> logits);

  const HeadSpec& head() const { return head_; }
  const std::vector<std::string>& names() const { return names_; }

  // Takes over the rows of `other`, of the same head and layout, as if they had been added here.
  void merge(const HeadMetrics& other);
  // All rows so far as bytes, and back: restore() replaces the own ones. Throws kCorruption for
  // damaged bytes and for those of other metrics.
  std::string to_bytes() const;
  void restore(std::string_view bytes);

  double value(size_t metric) { return metrics_[metric].metric->value(); }
  // Set when all labels so far are equal.
  std::optional<float> only_label() const;

 private:
  struct Measured {
    std::unique_ptr<Metric> metric;
    int64_t grouping;  // sparse_index, or -1
    bool is_loss;
  };

  HeadSpec head_;
  HeadRows rows_;
  std::vector<std::string> names_;
  std::vector<Measured> metrics_;
  float least_label_, most_label_;
};

}  // namespace emblem
