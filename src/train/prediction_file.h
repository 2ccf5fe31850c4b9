// train/prediction_file.h - predictions as a CSV file: one line for every row of the input.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "config/heads.h"
#include "core/output_file.h"
#include "core/view.h"
#include "data/batch.h"

namespace emblem {

// The outputs of a model that `names` choose, in their order; without names, the default ones.
// Throws Error with all names when there is no such output, and for duplicates.
std::vector<OutputSpec> choose_outputs(const std::vector<HeadSpec>& heads,
                                       std::span<const std::string> names);

// The columns of an output: its name, with _0, _1, ... for those of several columns. The default
// output of a model with one probability is "prediction".
std::vector<std::string> prediction_columns(std::span<const OutputSpec> outputs);

// A header, then for each row its kept columns (Batch::kept) and its predictions, with all digits
// of the floats. The predictions of a bad row are empty; where that would be all of a line, it is
// written as "" in quotes, because readers of CSV skip blank lines.
class PredictionFile {
 public:
  // `keep` are the names of the kept columns, which come first.
  PredictionFile(const std::string& path, std::span<const std::string> keep,
                 const std::vector<HeadSpec>& heads, const std::vector<OutputSpec>& outputs);

  // The logits of each head, [batch.rows, logits of the head].
  void add(const Batch& batch, const std::vector<View<const float>>& logits);

  // Without it, no file appears (core/output_file.h).
  void finish() { file_.finish(); }

 private:
  OutputFile file_;
  std::vector<HeadSpec> heads_;
  std::vector<OutputSpec> outputs_;
  std::vector<std::vector<float>> values_;  // of each output, of a batch
};

}  // namespace emblem
