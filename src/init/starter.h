// init/starter.h - a first pipeline for a data set: looks at a sample, chooses features, model and
// training settings.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "init/column_choice.h"
#include "init/pipeline_text.h"

namespace emblem {

struct StarterOptions {
  std::string input;           // files, folders or globs, comma-separated
  Storage storage;             // of addresses
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
