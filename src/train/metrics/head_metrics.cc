#include "train/metrics/head_metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "config/check/check_feature.h"
#include "config/feature/metrics.h"
#include "core/files/byte_io.h"
#include "core/math/checksum.h"
#include "emblem/error.h"
#include "loss/from_config.h"
#include "metric/kinds.h"
#include "model/layers/probability.h"

namespace emblem {
namespace {

using config::MetricConfig;

// The first key of the row, 0 where it has none.
int64_t first_key(const SparseColumn& column, int64_t row) {
  if (column.offsets.empty()) return column.keys[row];
  return column.offsets[row] < column.offsets[row + 1] ? column.keys[column.offsets[row]] : 0;
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
  const FeatureSpec& found = layout.find(feature);
  require_in_batches(found.settings);
  return found;
} catch (const Error& error) {
  refuse(metric, cat("has ", what, " \"", feature, "\": ", error.what()));
}

}  // namespace

// ---- rows ----

void HeadRows::add_row(const float* logits) {
  const int64_t classes = head_.classes;
  if (head_.role == HeadSpec::Role::kRanks) {
    ranks_.push_back({logits[0], logits[1], logits[2]});
    predictions_.push_back(0.0f);
  } else if (head_.kind == HeadKind::kNumber) {
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
  ranks_.clear();
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
          .class_logits = class_logits_,
          .ranks = ranks_};
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
    const auto key = grouping_key_of(metric);
    metrics_.push_back({make_metric(metric, measured(head), name),
                        key ? grouping(name, "grouping_key", *key) : -1, false});
  }
  for (const config::LossConfig& loss : reported_losses(head)) {
    const std::string& name = names_[metrics_.size()];
    const auto session = session_of(loss);
    metrics_.push_back({head.role == HeadSpec::Role::kRanks
                            ? make_rank_loss(head.weight, name)
                            : make_loss_metric(loss_from(loss), head.weight, name),
                        session ? grouping(name, "session_name", *session) : -1, true});
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
  if (head_.role == HeadSpec::Role::kRanks) return std::nullopt;  // labels do not count
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
