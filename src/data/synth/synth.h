// data/synth/synth.h - synthetic data sets with a planted truth (data/synth/planted_truth.h), so
// that a trained model can be judged against the best that is possible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/device/context.h"
#include "data/format/writer.h"

namespace emblem {

// Data with the columns of Criteo: a label, counts and categories.
struct SynthOptions {
  std::string out;  // gets train/, test/ and metadata.json
  std::string format = "tsv";
  int64_t rows = 1'000'000;
  int64_t test_rows = -1;  // -1: a tenth of rows
  uint64_t seed = 1;
  double alpha = 1.05;
  std::string tables = "kaggle";  // "kaggle" (1.2 M values), "fl15" (33 M), "criteo-40m" (188 M)
  double scale = 1.0;             // factor of the cardinalities; none becomes less than 2
  std::vector<int64_t> cardinalities;  // instead of tables and scale
  int num_dense = 13;
  // More fields than the tables name take their cardinalities from the front again. -1: as many as
  // named.
  int num_sparse = -1;
  // Shares of values that are missing; not set: 0.05 and 0.03, or 0 in raw and split, which cannot
  // have missing values.
  std::optional<double> missing_dense, missing_sparse;
  WriterOptions writing;
};

// What was written of one split, and the best any model can reach on it.
struct SynthSplitResult {
  int64_t rows = 0;
  double label_mean = 0;
  double best_auc = 0;
  double best_log_loss = 0;
};

struct SynthResult {
  SynthSplitResult train, test;
  std::vector<int64_t> cardinalities;
  int64_t bytes = 0;
};

// The cardinalities that the options ask for. Throws Error for unknown tables, listing the choices.
std::vector<int64_t> synth_cardinalities(const SynthOptions& options);

// Writes the data set; the same bytes with any number of threads. Nothing remains of a run that
// fails. Shows progress on stderr.
SynthResult synthesize(const Context& context, const SynthOptions& options);

}  // namespace emblem
