#include "data/synth/planted_truth.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "data/synth/streams.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Streams of random numbers: what they are for in the high byte.
enum class PlantedUse : uint64_t {
  kRow = 1,
  kDense = 2,
  kStrength = 3,
  kScatter = 4,
  kKeyEffect = 5,
  kHidden = 6
};

constexpr double kPlantedDeviation = 1.4;  // gives a best AUC of about 0.80 at the label mean below
constexpr double kPlantedMean = 0.25;
// Shares of the variance of the logit.
constexpr double kDenseShare = 0.39, kKeyShare = 0.57, kPlantedPairShare = 0.04;
// The effect of a key is scaled by its occurrences in kLearningRows rows, relative to
// kTrustedCount.
constexpr double kLearningRows = 1e6, kTrustedCount = 20000;
constexpr size_t kMostPlantedPairs = 2;
constexpr int64_t kLeastPlantedPairValues = 16;
constexpr int64_t kPlantedCalibrationRows = 16384;
constexpr double kOutlier = 5;  // effects of counts stop growing here, in deviations

struct Moments {
  double count = 0, sum = 0, squares = 0;
  void add(double x) {
    ++count;
    sum += x;
    squares += x * x;
  }
  double mean() const { return sum / count; }
  double deviation() const { return std::sqrt(std::max(0.0, squares / count - mean() * mean())); }
};

}  // namespace

SynthModel::SynthModel(SynthShape shape) : shape_(std::move(shape)) {
  EMBLEM_REQUIRE(shape_.num_dense >= 0, "the number of dense columns is ", shape_.num_dense,
                 "; expected 0 or more");
  EMBLEM_REQUIRE(shape_.num_dense > 0 || !shape_.cardinalities.empty(),
                 "a data set needs at least one dense or sparse column");
  EMBLEM_REQUIRE(shape_.alpha >= 0 && shape_.alpha <= 10, "alpha is ", shape_.alpha,
                 "; expected 0 (uniform) to 10");
  for (const double share : {shape_.missing_dense, shape_.missing_sparse}) {
    EMBLEM_REQUIRE(share >= 0 && share < 1, "the share of missing values is ", share,
                   "; expected 0 or more, and less than 1");
  }
  make_dense();
  make_fields();
  make_pairs();
  calibrate();
}

void SynthModel::make_dense() {
  for (int i = 0; i < shape_.num_dense; ++i) {
    Random random{shape_.seed, stream(PlantedUse::kDense, static_cast<uint64_t>(i))};
    Dense dense;
    // From columns that are mostly 0 to 2 up to columns of thousands, as Criteo's are.
    dense.log_mean = 0.7 + 5.0 * random.uniform();
    dense.log_deviation = 0.9 + 0.7 * random.uniform();
    dense.slope = (random.uniform() < 0.5f ? -1 : 1) * (0.3 + random.uniform());
    dense_.push_back(dense);
  }
}

void SynthModel::make_fields() {
  for (size_t i = 0; i < shape_.cardinalities.size(); ++i) {
    const int64_t values = shape_.cardinalities[i];
    EMBLEM_REQUIRE(values >= 1 && values <= Scatter::kMostValues, "the cardinality of C", i + 1,
                   " is ", values, "; expected 1 to ", Scatter::kMostValues);
    const double strength =
        0.25 + std::fabs(random_normal(shape_.seed, stream(PlantedUse::kStrength), i));
    fields_.push_back({Zipf(values, shape_.alpha),
                       Scatter(values, shape_.seed, stream(PlantedUse::kScatter, i)), strength});
  }
}

// Pairs of fields with few enough keys for their products to be learned.
void SynthModel::make_pairs() {
  std::vector<size_t> order(fields_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::erase_if(order, [&](size_t i) { return shape_.cardinalities[i] < kLeastPlantedPairValues; });
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return shape_.cardinalities[a] < shape_.cardinalities[b];
  });
  for (size_t i = 0; i + 1 < order.size() && pairs_.size() < kMostPlantedPairs; i += 2) {
    pairs_.push_back({order[i], order[i + 1]});
  }
}

// How much of a key's effect is there: nearly all for frequent keys, nearly nothing for rare ones.
double SynthModel::trust(size_t field, int64_t rank) const {
  const double expected = kLearningRows * fields_[field].law.probability(rank);
  return expected / (expected + kTrustedCount);
}

void SynthModel::draw_features(Random& random, SynthRow& row) const {
  row.dense.resize(dense_.size());
  row.ranks.resize(fields_.size());
  for (size_t i = 0; i < dense_.size(); ++i) {
    const double log_count = dense_[i].log_mean + dense_[i].log_deviation * random.normal();
    const bool missing = random.uniform() < shape_.missing_dense;
    row.dense[i] = missing ? std::numeric_limits<float>::quiet_NaN()
                           : static_cast<float>(std::floor(std::exp(log_count)));
  }
  for (size_t i = 0; i < fields_.size(); ++i) {
    const int64_t rank = fields_[i].law.draw(random);
    row.ranks[i] = random.uniform() < shape_.missing_sparse ? -1 : rank;
  }
}

double SynthModel::key_effect(size_t field, int64_t rank) const {
  return fields_[field].strength * trust(field, rank) *
         effect(shape_.seed, stream(PlantedUse::kKeyEffect, field), static_cast<uint64_t>(rank));
}

double SynthModel::hidden(size_t field, int64_t rank) const {
  return trust(field, rank) *
         effect(shape_.seed, stream(PlantedUse::kHidden, field), static_cast<uint64_t>(rank));
}

SynthModel::Parts SynthModel::parts_of(const SynthRow& row) const {
  Parts parts;
  for (size_t i = 0; i < dense_.size(); ++i) {
    const Dense& dense = dense_[i];
    // A missing count has the effect of 0, which is how it is read.
    const double count = std::isnan(row.dense[i]) ? 0 : row.dense[i];
    const double x = (std::log(count + 3) - dense.center) * dense.inverse_deviation;
    parts.dense += dense.slope * std::clamp(x, -kOutlier, kOutlier);
  }
  for (size_t i = 0; i < fields_.size(); ++i) {
    if (row.ranks[i] >= 0) parts.keys += key_effect(i, row.ranks[i]);
  }
  for (const Pair& pair : pairs_) {
    const int64_t a = row.ranks[pair.first], b = row.ranks[pair.second];
    if (a < 0 || b < 0) continue;
    parts.pairs += hidden(pair.first, a) * hidden(pair.second, b);
  }
  return parts;
}

// Measures on rows of their own what the parts weigh, so that every shape ends up with the wanted
// spread of logits, shares of the parts, and mean label.
void SynthModel::calibrate() {
  std::vector<SynthRow> rows(kPlantedCalibrationRows);
  for (int64_t i = 0; i < kPlantedCalibrationRows; ++i) {
    Random random = row_random(PlantedUse::kRow, shape_.seed, SynthSplit::kCalibration, i);
    draw_features(random, rows[i]);
  }
  center_dense(rows);
  std::vector<Parts> parts;
  Moments dense, keys, pairs;
  for (const SynthRow& row : rows) {
    parts.push_back(parts_of(row));
    dense.add(parts.back().dense);
    keys.add(parts.back().keys);
    pairs.add(parts.back().pairs);
  }
  const auto weight = [](const Moments& part, double share) {
    return part.deviation() > 1e-9 ? std::sqrt(share) / part.deviation() : 0.0;
  };
  weight_ = {weight(dense, kDenseShare), weight(keys, kKeyShare), weight(pairs, kPlantedPairShare)};
  // Parts may be absent (no dense columns, say) and are not quite independent.
  Moments total;
  for (const Parts& part : parts) total.add(logit_of(part));
  const double stretch = kPlantedDeviation / std::max(1e-9, total.deviation());
  weight_ = {weight_.dense * stretch, weight_.keys * stretch, weight_.pairs * stretch};
  std::vector<double> logits;
  for (const Parts& part : parts) logits.push_back(logit_of(part));
  bias_ = bias_for(logits, kPlantedMean);
}

void SynthModel::center_dense(const std::vector<SynthRow>& rows) {
  for (size_t d = 0; d < dense_.size(); ++d) {
    Moments logs;
    for (const SynthRow& row : rows) {
      if (!std::isnan(row.dense[d])) logs.add(std::log(row.dense[d] + 3.0));
    }
    if (logs.count == 0) continue;
    dense_[d].center = logs.mean();
    dense_[d].inverse_deviation = 1 / std::max(1e-6, logs.deviation());
  }
}

double SynthModel::logit_of(const Parts& parts) const {
  return bias_ + weight_.dense * parts.dense + weight_.keys * parts.keys +
         weight_.pairs * parts.pairs;
}

void SynthModel::draw(SynthSplit split, int64_t index, SynthRow& row) const {
  Random random = row_random(PlantedUse::kRow, shape_.seed, split, index);
  draw_features(random, row);
  row.logit = logit_of(parts_of(row));
  row.label = random.uniform() < sigmoid(row.logit) ? 1.0f : 0.0f;
}

}  // namespace emblem
