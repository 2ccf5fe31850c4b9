// train/prediction_file.h - predictions as a CSV file: one line for every row of the input.
#pragma once

#include <span>
#include <string>

#include "core/output_file.h"
#include "core/view.h"
#include "data/batch.h"

namespace emblem {

inline constexpr const char* kPredictionColumn = "prediction";  // after the kept columns

// A header, then for each row its kept columns (Batch::kept) and its prediction, with all digits of
// the float. The prediction of a bad row is empty; without kept columns it is written as "" in
// quotes, because readers of CSV skip blank lines.
class PredictionFile {
 public:
  // `keep` are the names of the kept columns.
  PredictionFile(const std::string& path, std::span<const std::string> keep);

  void add(const Batch& batch, View<const float> logits);  // [batch.rows, 1]

  // Without it, no file appears (core/output_file.h).
  void finish() { file_.finish(); }

 private:
  OutputFile file_;
};

}  // namespace emblem
