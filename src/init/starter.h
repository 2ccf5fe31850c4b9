// init/starter.h - a first pipeline for a data set: looks at a sample, chooses features, model and
// training settings.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "init/column_choice.h"
#include "init/label_choice.h"
#include "init/training_choice.h"

namespace emblem {

// What a commented pipeline for the columns of a data set is written from.
struct PipelineSettings {
  std::string train_input, eval_input, model_dir;
  std::string model;  // "": chosen by the columns and the label
  // Unused with an eval_input. 0: no evaluations; negative: chosen by make_starter.
  double holdout_ratio = -1;
  std::vector<std::string> holdout_fields;  // empty: the place of a row decides
  std::optional<TrainingChoice> training;   // unset: choose_training()
};

// data_config.max_bad_rows: what the source allows, and one in a hundred rows where not all were
// read, because the others may hold text in columns of numbers or classes that were not seen.
int64_t bad_rows_allowed(const DataProfile& profile);

// Models that a pipeline can be written for.
std::vector<std::string> starter_models();

// The model for these features, this label and about `rows` rows; `wanted` is one of
// starter_models(), or "". Throws Error when that one cannot read the features or learn the label.
std::string choose_model(const std::vector<ColumnChoice>& columns, const LabelChoice& label,
                         double rows, const std::string& wanted);

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
  bool is_beginning = false;      // `input` is the beginning of longer data
  int64_t max_bad_rows = 0;
  PipelineSettings pipeline;
};

struct Starter {
  std::string pipeline;               // text of the file
  std::string summary;                // for the terminal: the columns and what became of them
  std::vector<std::string> warnings;  // a line each
};

// Data that were looked at. Pipelines can be written for them with other settings than those that
// were chosen. Thread-compatible.
class StarterDraft {
 public:
  // Throws Error for everything that would keep the pipeline from training.
  explicit StarterDraft(const StarterOptions& options);

  double rows() const { return profile_.total_rows; }  // about
  LabelTask task() const { return label_.task; }
  const std::vector<ColumnChoice>& columns() const { return columns_; }
  const StarterOptions& options() const { return options_; }
  // What was chosen, as far as it was not given.
  const PipelineSettings& settings() const { return settings_; }

  // A pipeline with these settings, that trains. Throws Error where one cannot be obeyed.
  std::string text(const PipelineSettings& settings) const;
  // The same with what is to be said of the data.
  Starter finish(const PipelineSettings& settings) const;

 private:
  const StarterOptions options_;
  const DataSource source_;
  const ColumnWishes wishes_;
  const DataProfile profile_;
  const std::vector<ColumnChoice> columns_;
  const LabelChoice label_;
  const PipelineSettings settings_;
};

// StarterDraft(options) with what it chooses.
Starter make_starter(const StarterOptions& options);

}  // namespace emblem
