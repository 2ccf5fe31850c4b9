#include "train/report/loss_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr int64_t kMeasuredBatches = 10;
constexpr double kExplosion = 1e3;  // times the loss of the first step
// Usual first losses of classes: that of a model that knows nothing is about 0.7. A first loss
// outside of this range is the exception already, and says nothing about what is normal.
constexpr double kLeastUsual = 0.1, kMostUsual = 1.0;
constexpr double kLarge = 10.0;  // the mean magnitude of a feature that needs a normalizer
constexpr size_t kMostColumnsNamed = 3;

struct Numbers {
  const float* data;  // [rows, cols]
  int64_t rows, cols;
};

// Numbers that contain the feature's: of rows, or of the elements of its sequence.
Numbers numbers_of(const FeatureSpec& feature, const FeatureLayout& layout, const Batch& batch) {
  if (feature.sequence < 0) return {batch.dense.data(), batch.rows, layout.dense_cols};
  const auto at = static_cast<size_t>(feature.sequence);
  const SequenceColumn& sequence = batch.sequences[at];
  return {sequence.numbers.data(), sequence.elements(), layout.sequences[at].dense_cols};
}

}  // namespace

LossWatch::LossWatch(const FeatureLayout& layout, Scale scale)
    : layout_(layout), scale_(scale), first_batches_(layout.features.size()) {}

void LossWatch::measure(const Batch& batch, std::vector<Magnitude>& of) const {
  for (size_t f = 0; f < layout_.features.size(); ++f) {
    const FeatureSpec& feature = layout_.features[f];
    if (feature.kind != FeatureKind::kDense || feature.is_intermediate) continue;
    const Numbers numbers = numbers_of(feature, layout_, batch);
    for (int64_t row = 0; row < numbers.rows; ++row) {
      const float* values = numbers.data + row * numbers.cols + feature.dense_begin;
      for (int64_t col = 0; col < feature.dense_cols; ++col) of[f].sum += std::abs(values[col]);
    }
    of[f].count += numbers.rows * feature.dense_cols;
  }
}

void LossWatch::begin_step(const Batch& batch) {
  batch_ = &batch;
  if (measured_ == kMeasuredBatches) return;
  measure(batch, first_batches_);
  ++measured_;
}

std::optional<std::string> LossWatch::end_step(int64_t step, double loss) {
  ++steps_;
  had_loss_ |= loss != 0.0;
  if (first_loss_ == 0.0) first_loss_ = loss;
  const double usual =
      scale_ == Scale::kLabels ? first_loss_ : std::clamp(first_loss_, kLeastUsual, kMostUsual);
  if (warned_ || loss < kExplosion * usual) return std::nullopt;
  warned_ = true;
  return fmt::format("the loss is {:.3g} at step {} (first: {:.3g}); {}", loss, step, first_loss_,
                     advice());
}

std::optional<std::string> LossWatch::end_run() const {
  if (steps_ == 0 || had_loss_) return std::nullopt;
  std::string weights;
  for (const std::string& name : layout_.weight_fields)
    weights += cat(weights.empty() ? "" : ", ", '"', printable(name), '"');
  return cat(
      "the loss was 0 at every step: the model learned nothing",
      weights.empty() ? "" : "; are all sample weights 0? data_config.sample_weight_fields: ",
      weights);
}

std::string LossWatch::advice() const {
  std::vector<Magnitude> here(layout_.features.size());
  if (batch_ != nullptr) measure(*batch_, here);
  std::vector<std::pair<double, std::string>> large;
  for (size_t f = 0; f < here.size(); ++f) {
    const double mean = std::max(first_batches_[f].mean(), here[f].mean());
    if (mean > kLarge || std::isnan(mean)) large.emplace_back(mean, layout_.features[f].name);
  }
  if (large.empty()) return "lower lr, or add grad_clipping";
  std::stable_sort(large.begin(), large.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string names;
  for (size_t i = 0; i < std::min(large.size(), kMostColumnsNamed); ++i)
    names += fmt::format("{}{} ({:.3g})", i == 0 ? "" : ", ", large[i].second, large[i].first);
  return cat("the raw features with the largest mean magnitude are ", names,
             ": give them a normalizer, lower lr, or add grad_clipping");
}

}  // namespace emblem
