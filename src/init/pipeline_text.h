// init/pipeline_text.h - a commented pipeline for the columns of a data set.
#pragma once

#include <string>
#include <vector>

#include "init/column_choice.h"
#include "init/label_choice.h"

namespace emblem {

struct PipelineSettings {
  std::string train_input, eval_input, model_dir;
  std::string model;  // "": chosen by the columns and the label
  // Unused with an eval_input. 0: no evaluations; negative: chosen by make_starter.
  double holdout_ratio = -1;
  std::vector<std::string> holdout_fields;  // empty: the place of a row decides
};

// Models that a pipeline can be written for.
std::vector<std::string> starter_models();

// Protobuf text that load_pipeline reads and check_pipeline accepts. Throws Error when no column is
// left to learn from, or the model cannot read those that are or learn the label.
std::string pipeline_text(const DataProfile& profile, const std::vector<ColumnChoice>& columns,
                          const LabelChoice& label, const PipelineSettings& settings);

}  // namespace emblem
