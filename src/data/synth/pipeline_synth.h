// data/synth/pipeline_synth.h - synthetic data that fits a pipeline, with the best that its metrics
// can be.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "config/proto/pipeline.pb.h"
#include "core/device/context.h"
#include "data/format/writer.h"

namespace emblem {

struct PipelineSynthOptions {
  std::string name;  // name of the pipeline, for metadata.json
  // Gets train/, test/ and metadata.json, and for a pipeline with a sampler the files that it
  // reads (data/synth/pipeline_items.h).
  std::string out;
  int64_t rows = 100'000;
  int64_t test_rows = -1;  // -1: a tenth of rows
  uint64_t seed = 1;
  double alpha = 1.05;         // exponent of the power law of ids
  int64_t divide_tables = 1;   // ids are this many times fewer than the tables have rows
  std::string format = "csv";  // or "parquet", "orc", "arrow", where bags and sequences are lists
  WriterOptions writing;       // what is for columnar formats, and whether to overwrite
};

struct PipelineSynthResult {
  int64_t rows = 0, test_rows = 0, columns = 0, bytes = 0;
  // Best values by metric and tower ("auc_ctr"): what the true probabilities reach on the test
  // split. Of the metrics that evaluations report: auc, log_loss and accuracy of binary
  // labels, accuracy of classes, mean_squared_error and mean_absolute_error of numbers.
  std::vector<std::pair<std::string, double>> best;
};

// Writes CSV with a header, or a columnar format; the same bytes with any number of threads.
// Nothing remains of a run that fails. `config` has passed its checks.
PipelineSynthResult synthesize_for(const Context& context, const config::PipelineConfig& config,
                                   const PipelineSynthOptions& options);

}  // namespace emblem
