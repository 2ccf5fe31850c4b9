// data/synth/planted_truth.h - the known model that synthetic labels are drawn from.
//
// A row's logit is a bias, plus an effect of each count (of its logarithm), plus an effect of each
// key, plus for two pairs of fields the product of hidden numbers of their two keys. Every effect
// is a counter-based random number of (seed, field, rank of the key), so nothing is stored and
// tables may be of any size.
//
// Effects of rare keys are small: what could not be learned from a million rows is not there, so
// that a good model comes close to the limit. The truth depends on the seed and the shape alone,
// not on the number of rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/synth/zipf.h"

namespace emblem {

struct SynthShape {
  uint64_t seed = 1;
  double alpha = 1.05;  // exponent of the keys' power law
  int num_dense = 13;
  std::vector<int64_t> cardinalities;  // one a sparse field
  double missing_dense = 0;            // shares of values that are missing
  double missing_sparse = 0;
};

enum class SynthSplit : uint8_t { kTrain, kTest, kCalibration };

// A row before it is written.
struct SynthRow {
  std::vector<float> dense;    // NaN where missing
  std::vector<int64_t> ranks;  // ranks of the keys, 0 being the most frequent; -1 where missing
  double logit = 0;
  float label = 0;
};

// Const methods may run concurrently.
class SynthModel {
 public:
  // Throws Error when the shape makes no sense.
  explicit SynthModel(SynthShape shape);

  // Row number `index` of a split. Depends on nothing else.
  void draw(SynthSplit split, int64_t index, SynthRow& row) const;

  // What stands in the files for a rank of a field.
  int64_t key(size_t field, int64_t rank) const { return fields_[field].scatter(rank); }

  const SynthShape& shape() const { return shape_; }

 private:
  struct Dense {
    double log_mean, log_deviation;            // parameters of the log-normal counts
    double center = 0, inverse_deviation = 1;  // moments of log(x + 3) over the rows
    double slope;
  };
  struct Field {
    Zipf law;
    Scatter scatter;
    double strength;
  };
  struct Pair {
    size_t first, second;
  };
  // The parts of a logit, before weights make them add up to the wanted spread.
  struct Parts {
    double dense = 0, keys = 0, pairs = 0;
  };

  void make_dense();
  void make_fields();
  void make_pairs();
  void calibrate();
  void draw_features(Random& random, SynthRow& row) const;
  void center_dense(const std::vector<SynthRow>& rows);
  Parts parts_of(const SynthRow& row) const;
  double logit_of(const Parts& parts) const;
  double trust(size_t field, int64_t rank) const;
  double key_effect(size_t field, int64_t rank) const;
  double hidden(size_t field, int64_t rank) const;

  SynthShape shape_;
  std::vector<Dense> dense_;
  std::vector<Field> fields_;
  std::vector<Pair> pairs_;
  Parts weight_;
  double bias_ = 0;
};

}  // namespace emblem
