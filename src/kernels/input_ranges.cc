#include "kernels/input_ranges.h"

#include <algorithm>
#include <cmath>

#include "kernels/packed_weights.h"

namespace emblem {
namespace {

constexpr float kSteps = 255.0f;
// Shares of the range of all values; rare values far away would make steps too large for others.
constexpr float kShares[] = {1.0f,  0.9f, 0.8f,  0.7f, 0.6f,  0.5f, 0.4f,
                             0.35f, 0.3f, 0.25f, 0.2f, 0.15f, 0.1f, 0.05f};

// How columns with small ranges are rounded: in steps between their own (1) and those of the column
// with the largest range (0). With large steps their weights, which are rounded after they were
// multiplied by the steps, keep more digits.
constexpr float kOwnShares[] = {1.0f, 0.75f, 0.5f, 0.25f, 0.0f};

// The range of a column whose values have the least error.
std::pair<float, float> find_range(const std::vector<float>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  float best = 1.0f;
  double least = 0;
  for (const float share : kShares) {
    const Int8Column column(*low * share, *high * share);
    double error = 0;
    for (const float value : values)
      error += std::pow(double{column.rounded(value)} - double{value}, 2);
    if (share != kShares[0] && error >= least) continue;
    least = error;
    best = share;
  }
  return {*low * best, *high * best};
}

std::vector<float> column_of(Matrix<const float> x, int64_t col) {
  std::vector<float> values(static_cast<size_t>(x.rows));
  for (int64_t r = 0; r < x.rows; ++r) values[static_cast<size_t>(r)] = x.row(r)[col];
  return values;
}

// Steps become own_share of the way from the largest to their own, by ratio.
InputRanges widened(Matrix<const float> x, const InputRanges& ranges, float own_share) {
  float largest = 0;
  for (size_t k = 0; k < ranges.low.size(); ++k)
    largest = std::max(largest, ranges.high[k] - ranges.low[k]);
  InputRanges result = ranges;
  for (size_t k = 0; k < ranges.low.size(); ++k) {
    const float range = ranges.high[k] - ranges.low[k];
    const float factor = range > 0 ? std::pow(largest / range, 1.0f - own_share) : 1.0f;
    result.low[k] *= factor;
    result.high[k] *= factor;
    const Int8Column column(result.low[k], result.high[k]);
    double sum = 0, rounded_sum = 0;
    for (const float value : column_of(x, static_cast<int64_t>(k))) {
      sum += double{value};
      rounded_sum += double{column.rounded(value)};
    }
    result.mean[k] = static_cast<float>(sum / static_cast<double>(x.rows));
    result.rounded_mean[k] = static_cast<float>(rounded_sum / static_cast<double>(x.rows));
  }
  return result;
}

double squared_error(Matrix<const float> x, Matrix<const float> weights, const InputRanges& ranges,
                     const std::vector<float>& expected) {
  cpu::PackedWeights packed;
  packed.assign_int8(weights, ranges);
  std::vector<float> y(expected.size());
  packed.multiply(x, {y.data(), x.rows, weights.rows});
  double sum = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t unit = i % static_cast<size_t>(weights.rows);
    const float value = packed.scales()[unit] * y[i] + packed.offsets()[unit];
    sum += std::pow(double{value} - double{expected[i]}, 2);
  }
  return sum;
}

}  // namespace

Int8Column::Int8Column(float low, float high) {
  low = std::min(low, 0.0f);
  high = std::max(high, 0.0f);
  const float range = high - low;
  const bool is_usable = range > 0.0f && std::isfinite(range) && std::isfinite(kSteps / range);
  step = is_usable ? range / kSteps : 1.0f;
  factor = 1.0f / step;
  zero = is_usable ? static_cast<int32_t>(std::nearbyint(-low / step)) - 128 : 0;
}

float Int8Column::rounded(float value) const {
  const float limited = std::clamp(value * factor, -512.0f, 512.0f);  // beyond all steps
  const float element = std::nearbyint(limited) + static_cast<float>(zero);
  return step * (std::clamp(element, -128.0f, 127.0f) - static_cast<float>(zero));
}

// Each row of those seen is kept with the same probability.
void InputRecorder::add(Matrix<const float> x) {
  cols_ = x.cols;
  for (int64_t r = 0; r < x.rows; ++r) {
    const int64_t place =
        seen_ < kMostRows ? seen_
                          : static_cast<int64_t>(random_.below(static_cast<uint64_t>(seen_ + 1)));
    ++seen_;
    if (place >= kMostRows) continue;
    rows_.resize(std::max(rows_.size(), static_cast<size_t>((place + 1) * cols_)));
    std::copy_n(x.row(r), cols_, rows_.data() + place * cols_);
  }
}

InputRanges InputRecorder::ranges(Matrix<const float> weights) const {
  constexpr int64_t kCompared = 512;
  if (empty()) return {};
  const Matrix<const float> x(rows_.data(), static_cast<int64_t>(rows_.size()) / cols_, cols_);
  InputRanges own;
  for (int64_t k = 0; k < cols_; ++k) {
    const auto [low, high] = find_range(column_of(x, k));
    own.low.push_back(low);
    own.high.push_back(high);
  }
  own.mean.resize(own.low.size());
  own.rounded_mean.resize(own.low.size());
  const Matrix<const float> some = x.row_range(0, std::min(kCompared, x.rows));
  std::vector<float> expected(static_cast<size_t>(some.rows * weights.rows));
  cpu::PackedWeights(weights).multiply(some, {expected.data(), some.rows, weights.rows});
  InputRanges best;
  double least = 0;
  for (const float share : kOwnShares) {
    InputRanges candidate = widened(x, own, share);
    const double error = squared_error(some, weights, candidate, expected);
    if (!best.empty() && error >= least) continue;
    least = error;
    best = std::move(candidate);
  }
  return best;
}

}  // namespace emblem
