// init/starter.h - a first pipeline for a data set: looks at a sample, chooses features, model and
// training settings.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "init/column_choice.h"
#include "init/label_choice.h"

namespace emblem {

// What a commented pipeline for the columns of a data set is written from.
struct PipelineSettings {
  std::string train_input, eval_input, model_dir;
  std::string model;  // "": chosen by the columns and the label
  // Unused with an eval_input. 0: no evaluations; negative: chosen by make_starter.
  double holdout_ratio = -1;
  std::vector<std::string> holdout_fields;  // empty: the place of a row decides
};

// data_config.max_bad_rows: what the source allows, and one in a hundred rows where not all were
// read, because the others may hold text in columns of numbers or classes that were not seen.
int64_t bad_rows_allowed(const DataProfile& profile);

// Models that a pipeline can be written for.
std::vector<std::string> starter_models();

// Protobuf text that load_pipeline reads and check_pipeline accepts. Throws Error when no column is
// left to learn from, or the model cannot read those that are or learn the label.
std::string pipeline_text(const DataProfile& profile, const std::vector<ColumnChoice>& columns,
                          const LabelChoice& label, const PipelineSettings& settings);

struct StarterOptions {
  std::string input;           // files, folders or globs, comma-separated
  Storage storage;             // storage of addresses
  std::string label_positive;  // "": chosen
  std::string task;            // "binary", "classes" or "number"; "": chosen by the label
  CsvHints csv;
  ColumnWishes columns;           // the label may be "" for formats that have one of their own
  int64_t sampled_rows = 200000;  // 0: all
  int64_t max_bad_rows = 0;
  PipelineSettings pipeline;
};

struct Starter {
  std::string pipeline;               // text of the file
  std::string summary;                // for the terminal: the columns and what became of them
  std::vector<std::string> warnings;  // a line each
};

// Throws Error for everything that would keep the pipeline from training.
Starter make_starter(const StarterOptions& options);

}  // namespace emblem
