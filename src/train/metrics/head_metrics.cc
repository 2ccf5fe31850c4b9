#include "train/metrics/head_metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "config/metrics.h"
#include "core/byte_io.h"
#include "core/checksum.h"
#include "emblem/error.h"
#include "model/probability.h"

namespace emblem {
namespace {

using config::MetricConfig;

// The first key of the row, 0 where it has none.
int64_t first_key(const SparseColumn& column, int64_t row) {
  if (column.offsets.empty()) return column.keys[row];
  return column.offsets[row] < column.offsets[row + 1] ? column.keys[column.offsets[row]] : 0;
}

uint64_t checksum_of(std::string_view bytes) {
  Checksum checksum;
  checksum.add(bytes.data(), bytes.size());
  return checksum.value();
}

int64_t columns_of(const HostVector<float>& values, const Batch& batch) {
  return batch.rows == 0 ? 0 : static_cast<int64_t>(values.size()) / batch.rows;
}

// Whether a row could be read and has the label of the head.
bool counts(const Batch& batch, int64_t row, const HeadSpec& head) {
  if (!batch.bad.empty() && batch.bad[static_cast<size_t>(row)] != 0) return false;
  return !std::isnan(batch.labels[row * columns_of(batch.labels, batch) + head.label]);
}

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, cat("metric ", name, " ", why));
}

const FeatureSpec& grouping_feature(const std::string& metric, const std::string& what,
                                    const std::string& feature, const FeatureLayout& layout) try {
  return layout.find(feature);
} catch (const Error& error) {
  refuse(metric, cat("has ", what, " \"", feature, "\": ", error.what()));
}

// Probabilities of label 1.
void need_two_outcomes(const HeadSpec& head, const std::string& name) {
  if (head.kind == HeadKind::kNumber)
    refuse(name, "needs probabilities, but the model predicts a number (l2_loss)");
  if (head.classes > 2)
    refuse(name, cat("needs two classes, but the model has ", head.classes,
                     "; use multiclass_auc or accuracy"));
}

void need_one_number(const HeadSpec& head, const std::string& name) {
  if (head.classes > 2)
    refuse(name, cat("needs one number a row, but the model has ", head.classes, " classes"));
}

ClassAverage average_from(const std::string& text) {
  if (text == "macro") return ClassAverage::kMacro;
  if (text == "weighted") return ClassAverage::kWeighted;
  throw Error(ErrorCode::kInvalidArgument, cat("metric multiclass_auc has average: \"", text,
                                               "\", but it must be \"macro\" or \"weighted\""));
}

std::unique_ptr<Metric> make_class_metric(const MetricConfig& metric, const HeadSpec& head,
                                          std::string name) {
  if (metric.has_multiclass_auc()) {
    if (head.kind != HeadKind::kClass)
      refuse(name, "needs several classes (softmax_cross_entropy), but the model has one output");
    return make_multiclass_auc(head.classes, metric.multiclass_auc().thresholds(),
                               average_from(metric.multiclass_auc().average()), std::move(name));
  }
  if (metric.has_accuracy() && head.kind == HeadKind::kClass &&
      metric.accuracy().top_k() >= static_cast<uint32_t>(std::max<int64_t>(2, head.classes)))
    refuse(name, cat("has top_k: ", metric.accuracy().top_k(), ", but there are ", head.classes,
                     " classes; use a smaller one"));
  if (metric.has_accuracy())
    return head.kind == HeadKind::kClass
               ? make_top_k_accuracy(metric.accuracy().top_k(), std::move(name))
               : make_accuracy(metric.accuracy().threshold(), std::move(name));
  return head.classes > 2 ? make_class_log_loss(std::move(name)) : make_log_loss(std::move(name));
}

std::unique_ptr<Metric> make_number_metric(const MetricConfig& metric, std::string name) {
  switch (metric.metric_case()) {
    case MetricConfig::kMeanAbsoluteError:
      return make_mean_absolute_error(std::move(name));
    case MetricConfig::kMeanSquaredError:
      return make_mean_squared_error(std::move(name));
    case MetricConfig::kXauc:
      return metric.xauc().in_batch() ? make_xauc_in_batch(std::move(name))
                                      : make_xauc(std::move(name));
    case MetricConfig::kGroupedXauc:
      return make_grouped_xauc(std::move(name));
    case MetricConfig::kNdcgAtK:
      return make_ndcg_at_k(metric.ndcg_at_k().top_k(), std::move(name));
    case MetricConfig::kMeanLabel:
      return make_mean_label(std::move(name));
    default:
      return make_mean_prediction(std::move(name));
  }
}

}  // namespace

std::unique_ptr<Metric> make_metric(const MetricConfig& metric, const HeadSpec& head,
                                    std::string name) {
  switch (metric.metric_case()) {
    case MetricConfig::kAuc:
      need_two_outcomes(head, name);
      return metric.auc().thresholds() == 0
                 ? make_exact_auc(std::move(name))
                 : make_binned_auc(metric.auc().thresholds(), std::move(name));
    case MetricConfig::kGroupedAuc:
      need_two_outcomes(head, name);
      return make_grouped_auc(std::move(name));
    case MetricConfig::kNormalizedEntropy:
      need_two_outcomes(head, name);
      return make_normalized_entropy(metric.normalized_entropy().eta(), std::move(name));
    case MetricConfig::kCalibration:
      need_one_number(head, name);
      return make_calibration(std::move(name));
    case MetricConfig::kMulticlassAuc:
      return make_class_metric(metric, head, std::move(name));
    case MetricConfig::kAccuracy:
    case MetricConfig::kLogLoss:
      if (head.kind == HeadKind::kNumber) need_two_outcomes(head, name);
      return make_class_metric(metric, head, std::move(name));
    case MetricConfig::kMeanAbsoluteError:
    case MetricConfig::kMeanSquaredError:
    case MetricConfig::kXauc:
    case MetricConfig::kGroupedXauc:
    case MetricConfig::kNdcgAtK:
    case MetricConfig::kMeanLabel:
    case MetricConfig::kMeanPrediction:
      need_one_number(head, name);
      return make_number_metric(metric, std::move(name));
    case MetricConfig::kRecallAtK:
      refuse("recall_at_k",
             "ranks the candidates of one query, but this model scores single rows; use "
             "grouped_auc or ndcg_at_k with a grouping_key instead");
    case MetricConfig::METRIC_NOT_SET:
      break;
  }
  throw Error(ErrorCode::kInternal, cat("metric ", name, " is not implemented"));
}

std::unique_ptr<Metric> make_loss_metric(const config::LossConfig& loss, const HeadSpec& head,
                                         std::string name) {
  const double factor = head.weight;
  switch (loss.loss_case()) {
    case config::LossConfig::kSoftmaxCrossEntropy:
      return make_softmax_cross_entropy(std::move(name), factor,
                                        loss.softmax_cross_entropy().label_smoothing());
    case config::LossConfig::kL2Loss:
      return make_l2_loss(std::move(name), factor, head.label_deviation);
    case config::LossConfig::kJrcLoss:
      return make_jrc_loss(std::move(name), factor, loss.jrc_loss().alpha());
    case config::LossConfig::kBinaryFocalLoss:
      return make_binary_focal_loss(std::move(name), factor, loss.binary_focal_loss().gamma(),
                                    loss.binary_focal_loss().alpha());
    default:
      return make_binary_cross_entropy(std::move(name), factor,
                                       loss.binary_cross_entropy().label_smoothing());
  }
}

// ---- rows ----

void HeadRows::add_row(const float* logits) {
  const int64_t classes = head_.classes;
  if (head_.kind == HeadKind::kNumber) {
    predictions_.push_back(head_.label_mean + head_.label_deviation * logits[0]);
  } else if (head_.kind == HeadKind::kBinary) {
    predictions_.push_back(probability_of(logits[0]));
    logits_.push_back(logits[0]);
  } else {
    const double all = log_sum_exp({logits, static_cast<size_t>(classes)});
    for (int64_t i = 0; i < classes; ++i)
      probabilities_.push_back(static_cast<float>(std::exp(logits[i] - all)));
    class_logits_.insert(class_logits_.end(), logits, logits + classes);
    const float difference = logits[1] - logits[0];
    predictions_.push_back(classes == 2 ? probability_of(difference)
                                        : probabilities_[probabilities_.size() - classes + 1]);
    if (classes == 2) logits_.push_back(difference);
  }
}

MetricBatch HeadRows::of(const Batch& batch, View<const float> logits) {
  for (auto* values :
       {&predictions_, &labels_, &logits_, &weights_, &probabilities_, &class_logits_})
    values->clear();
  const int64_t labels = columns_of(batch.labels, batch);
  const int64_t weights = columns_of(batch.sample_weights, batch);
  for (int64_t row = 0; row < batch.rows; ++row) {
    if (!counts(batch, row, head_)) continue;
    const float* of_row = logits.row(row);
    if (head_.domain >= 0) {
      const auto domain = static_cast<int64_t>(batch.labels[row * labels + head_.domain]);
      of_row += std::clamp<int64_t>(domain, 0, head_.domains - 1) * head_.classes;
    }
    add_row(of_row);
    labels_.push_back(batch.labels[row * labels + head_.label]);
    if (head_.sample_weight >= 0 && weights > 0)
      weights_.push_back(batch.sample_weights[row * weights + head_.sample_weight]);
  }
  return {.predictions = predictions_,
          .labels = labels_,
          .logits = logits_,
          .weights = weights_,
          .classes = head_.classes,
          .probabilities = probabilities_,
          .class_logits = class_logits_};
}

MetricBatch HeadRows::grouped_by(int64_t sparse_index, const Batch& batch, MetricBatch rows) {
  groups_.clear();
  for (int64_t row = 0; row < batch.rows; ++row)
    if (counts(batch, row, head_)) groups_.push_back(first_key(batch.sparse[sparse_index], row));
  rows.groups = groups_;
  return rows;
}

MetricBatch HeadRows::weighted_as_loss(const Batch& batch, MetricBatch rows) {
  if (head_.indicator < 0) return rows;
  const int64_t labels = columns_of(batch.labels, batch);
  loss_weights_.clear();
  for (int64_t row = 0; row < batch.rows; ++row) {
    if (!counts(batch, row, head_)) continue;
    const bool inside = batch.labels[row * labels + head_.indicator] > 0.0f;
    loss_weights_.push_back(rows.weight(loss_weights_.size()) *
                            (inside ? head_.in_space : head_.out_space));
  }
  rows.weights = loss_weights_;
  return rows;
}

// ---- all metrics of a head ----

HeadMetrics::HeadMetrics(const HeadSpec& head, const FeatureLayout& layout)
    : head_(head),
      rows_(head),
      names_(metric_names(head)),
      least_label_(std::numeric_limits<float>::infinity()),
      most_label_(-std::numeric_limits<float>::infinity()) {
  const auto grouping = [&](const std::string& name, const std::string& what,
                            const std::string& feature) -> int64_t {
    if (feature.empty()) refuse(name, cat("has no ", what, "; name an id feature to group by"));
    const FeatureSpec& spec = grouping_feature(name, what, feature, layout);
    if (spec.kind != FeatureKind::kSparse || spec.sequence >= 0)
      refuse(name, cat("has ", what, " \"", feature, "\", which is ",
                       spec.sequence >= 0 ? "a sequence" : "a numeric feature",
                       "; group by an id_feature"));
    return spec.sparse_index;
  };
  for (const MetricConfig& metric : reported_metrics(head)) {
    const std::string& name = names_[metrics_.size()];
    const bool groups =
        metric.has_grouped_auc() || metric.has_grouped_xauc() || metric.has_ndcg_at_k();
    metrics_.push_back({make_metric(metric, head, name),
                        groups ? grouping(name, "grouping_key", grouping_key_of(metric)) : -1,
                        false});
  }
  for (const config::LossConfig& loss : reported_losses(head)) {
    const std::string& name = names_[metrics_.size()];
    metrics_.push_back(
        {make_loss_metric(loss, head, name),
         loss.has_jrc_loss() ? grouping(name, "session_name", loss.jrc_loss().session_name()) : -1,
         true});
  }
}

void HeadMetrics::add(const Batch& batch, View<const float> logits) {
  if (metrics_.empty()) return;
  const MetricBatch rows = rows_.of(batch, logits);
  for (const float label : rows.labels) {
    least_label_ = std::min(least_label_, label);
    most_label_ = std::max(most_label_, label);
  }
  for (Measured& one : metrics_) {
    MetricBatch measured = one.is_loss ? rows_.weighted_as_loss(batch, rows) : rows;
    if (one.grouping >= 0) measured = rows_.grouped_by(one.grouping, batch, measured);
    one.metric->add(measured);
  }
}

std::optional<float> HeadMetrics::only_label() const {
  return least_label_ == most_label_ ? std::optional(least_label_) : std::nullopt;
}

void HeadMetrics::merge(const HeadMetrics& other) {
  EMBLEM_REQUIRE(names_ == other.names_, "cannot merge the metrics of another head");
  for (size_t i = 0; i < metrics_.size(); ++i) metrics_[i].metric->merge(*other.metrics_[i].metric);
  least_label_ = std::min(least_label_, other.least_label_);
  most_label_ = std::max(most_label_, other.most_label_);
}

std::string HeadMetrics::to_bytes() const {
  ByteWriter writer;
  writer.add(static_cast<uint64_t>(names_.size())).add(least_label_).add(most_label_);
  for (size_t i = 0; i < metrics_.size(); ++i) {
    writer.add_text(names_[i]);
    metrics_[i].metric->save(writer);
  }
  writer.add(checksum_of(writer.bytes()));
  return std::move(writer).bytes();
}

void HeadMetrics::restore(std::string_view bytes) {
  constexpr const char* kWhat = "the metrics of a head";
  constexpr size_t kChecksumBytes = sizeof(uint64_t);
  const size_t body = bytes.size() - std::min(bytes.size(), kChecksumBytes);
  uint64_t checksum = 0;
  ByteReader(bytes.substr(body), kWhat).read(checksum);
  ByteReader reader(bytes.substr(0, body), kWhat);
  if (checksum != checksum_of(bytes.substr(0, body))) reader.fail("the checksum is wrong");
  uint64_t count = 0;
  reader.read(count);
  if (count != metrics_.size()) reader.fail(cat(count, " metrics, not ", metrics_.size()));
  reader.read(least_label_);
  reader.read(most_label_);
  for (size_t i = 0; i < metrics_.size(); ++i) {
    const std::string_view name = reader.read_text();
    if (name != names_[i]) reader.fail(cat("metric ", name, " in place of ", names_[i]));
    metrics_[i].metric->restore(reader);
  }
  reader.end();
}

}  // namespace emblem
