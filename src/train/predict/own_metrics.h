// train/predict/own_metrics.h - metrics that the caller of an evaluation computes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "train/predict/prediction_file.h"

namespace emblem {

// The rows of an evaluation, bad ones not included.
struct EvaluatedRows {
  int64_t rows = 0;
  std::vector<float> labels;       // [rows, labels of the pipeline], NaN where a row has none
  std::vector<float> predictions;  // [rows, columns of the default outputs]
};

// Values by name. An empty `compute`: there are none.
struct OwnMetrics {
  std::vector<std::string> names;
  std::function<std::map<std::string, double>(const EvaluatedRows&)> compute;
};

// Keeps the rows of an evaluation.
class RowCollector {
 public:
  explicit RowCollector(std::vector<HeadSpec> heads);

  // The logits of each head, [batch.rows, logits of the head].
  void add(const Batch& batch, const std::vector<View<const float>>& logits);

  const EvaluatedRows& rows() const { return rows_; }

 private:
  const std::vector<HeadSpec> heads_;
  const std::vector<OutputSpec> outputs_;
  EvaluatedRows rows_;
};

}  // namespace emblem
