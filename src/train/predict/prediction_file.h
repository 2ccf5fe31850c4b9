// train/predict/prediction_file.h - predictions as a file: one row for every row of the input. CSV,
// or what the ending of its name says (train/predict/prediction_table.h).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/feature/heads.h"
#include "core/files/output_file.h"
#include "core/memory/view.h"
#include "data/batch.h"
#include "train/predict/prediction_table.h"

namespace emblem {

// The outputs of a model that `names` choose, in their order; without names, the default ones.
// Throws Error with all names when there is no such output, and for duplicates.
std::vector<OutputSpec> choose_outputs(const std::vector<HeadSpec>& heads,
                                       std::span<const std::string> names);

// The columns of an output: its name, with _0, _1, ... for those of several columns. The default
// output of a model with one probability is "prediction".
std::vector<std::string> prediction_columns(std::span<const OutputSpec> outputs);

// The values of each output, [rows, columns of the output], of the logits of each head.
std::vector<std::vector<float>> output_values(const std::vector<HeadSpec>& heads,
                                              std::span<const OutputSpec> outputs, int64_t rows,
                                              const std::vector<View<const float>>& logits);

// A header, then for each row its kept columns (Batch::kept) and its predictions, with all digits
// of the floats. The predictions of a bad row are empty; where that would be all of a line, it is
// written as "" in quotes, because readers of CSV skip blank lines.
class PredictionFile {
 public:
  // `keep` are the kept columns, which come first.
  PredictionFile(const std::string& path, const std::vector<ColumnSpec>& keep,
                 const std::vector<HeadSpec>& heads, const std::vector<OutputSpec>& outputs);

  // The logits of each head, [batch.rows, logits of the head].
  void add(const Batch& batch, const std::vector<View<const float>>& logits);

  // The same with the values of the outputs. Of the batch only rows, bad and kept are used.
  void add(const Batch& batch, const std::vector<std::vector<float>>& values);

  // Without this call no file appears (core/files/output_file.h).
  void finish();

 private:
  void write_lines(const Batch& batch, const std::vector<std::vector<float>>& values);
  void write_table(const Batch& batch, const std::vector<std::vector<float>>& values);

  std::unique_ptr<OutputFile> file_;  // CSV
  std::unique_ptr<PredictionTable> table_;
  std::vector<HeadSpec> heads_;
  std::vector<OutputSpec> outputs_;
  std::string kept_binary_;  // CSV: a kept column of bytes, which must be text; "" without one
};

}  // namespace emblem
