// data/synth/score_summary.h - how good the true probabilities are as predictions: the best any
// model can do.
#pragma once

#include <cstdint>
#include <vector>

namespace emblem {

// AUC comes from counts of logits in a million narrow bins (those in one bin count as tied), so
// that memory does not grow with the rows. Rows must come in the same order for the same log loss
// to the last bit.
class ScoreSummary {
 public:
  ScoreSummary();

  void add(double logit, float label);

  int64_t rows() const { return rows_; }
  double label_mean() const;  // 0 without rows, as the log loss
  double log_loss() const;
  double auc() const;  // 0.5 when all labels are equal

 private:
  std::vector<int64_t> negatives_, positives_;
  int64_t rows_ = 0, positive_rows_ = 0;
  double loss_ = 0;
};

}  // namespace emblem
