#include "metric/metric.h"

#include <bit>
#include <cmath>

#include "emblem/error.h"

namespace emblem {
namespace {

void check_finite(std::span<const float> values, const char* what) {
  // One pass without branches, as this runs over every row of every batch: an exponent of all ones
  // means NaN or infinity.
  uint32_t bad = 0;
  for (const float value : values)
    bad |= (std::bit_cast<uint32_t>(value) & 0x7f800000u) == 0x7f800000u;
  if (bad == 0) return;
  for (size_t row = 0; row < values.size(); ++row) {
    EMBLEM_REQUIRE(
        std::isfinite(values[row]), "the ", what, " of row ", row, " of the batch is ", values[row],
        ", but metrics need finite numbers (has the model diverged? try a lower learning rate)");
  }
}

void check_length(size_t length, const char* what, size_t rows) {
  EMBLEM_REQUIRE(length == rows, "metrics got ", length, " ", what, " for ", rows, " predictions");
}

}  // namespace

void Metric::add(const MetricBatch& batch) {
  const size_t rows = batch.predictions.size();
  check_length(batch.labels.size(), "labels", rows);
  if (!batch.logits.empty()) check_length(batch.logits.size(), "logits", rows);
  if (!batch.weights.empty()) check_length(batch.weights.size(), "weights", rows);
  if (!batch.groups.empty()) check_length(batch.groups.size(), "group keys", rows);
  const auto of_classes = rows * static_cast<size_t>(batch.classes);
  if (!batch.probabilities.empty())
    check_length(batch.probabilities.size(), "probabilities of classes", of_classes);
  if (!batch.class_logits.empty())
    check_length(batch.class_logits.size(), "logits of classes", of_classes);
  if (!batch.ranks.empty()) check_length(batch.ranks.size(), "ranks", rows);
  check_finite(batch.probabilities, "probability of a class");
  check_finite(batch.class_logits, "logit of a class");
  check_finite(batch.predictions, "prediction");
  check_finite(batch.labels, "label");
  check_finite(batch.logits, "logit");
  check_finite(batch.weights, "weight");
  for (const float weight : batch.weights) {
    EMBLEM_REQUIRE(weight >= 0.0f, "a sample weight is ", weight,
                   ", but weights must not be negative");
  }
  if (rows == 0) return;  // all rows of a batch were bad
  check(batch);
  accumulate(batch);
}

void Metric::scale(double) {
  throw Error(ErrorCode::kUnsupported, cat("metric ", name(), " keeps no counts to scale"));
}

void Metric::check_groups(const MetricBatch& batch) const {
  EMBLEM_REQUIRE(batch.groups.size() == batch.labels.size(), "metric ", name(),
                 " needs a group key per row, but the batch has none");
}

}  // namespace emblem
