#include "data/synth/score_summary.h"

#include <algorithm>
#include <cmath>

namespace emblem {
namespace {

constexpr int64_t kBins = int64_t{1} << 20;
constexpr double kRange = 16;  // logits beyond are certain to all purposes, and tied

}  // namespace

ScoreSummary::ScoreSummary() : negatives_(kBins), positives_(kBins) {}

void ScoreSummary::add(double logit, float label) {
  const double place = (logit + kRange) * (kBins / (2 * kRange));
  const auto bin = static_cast<size_t>(std::clamp(place, 0.0, static_cast<double>(kBins - 1)));
  const bool positive = label > 0.5f;
  ++(positive ? positives_ : negatives_)[bin];
  ++rows_;
  positive_rows_ += positive;
  const double margin = positive ? logit : -logit;
  loss_ += std::log1p(std::exp(-std::fabs(margin))) + std::max(0.0, -margin);
}

double ScoreSummary::label_mean() const {
  return rows_ == 0 ? 0 : static_cast<double>(positive_rows_) / static_cast<double>(rows_);
}

double ScoreSummary::log_loss() const {
  return rows_ == 0 ? 0 : loss_ / static_cast<double>(rows_);
}

double ScoreSummary::auc() const {
  const double pairs =
      static_cast<double>(positive_rows_) * static_cast<double>(rows_ - positive_rows_);
  if (pairs == 0) return 0.5;
  double below = 0, won = 0;  // negatives with smaller logits; pairs in the right order
  for (int64_t bin = 0; bin < kBins; ++bin) {
    won +=
        static_cast<double>(positives_[bin]) * (below + 0.5 * static_cast<double>(negatives_[bin]));
    below += static_cast<double>(negatives_[bin]);
  }
  return won / pairs;
}

}  // namespace emblem
