// data/synth/pipeline_text.h - synthetic rows of a pipeline as text.
#pragma once

#include <string>
#include <vector>

#include "data/synth/pipeline_truth.h"

namespace emblem {

// The names of all columns: labels, weights, inputs of features.
std::string csv_header(const PipelineSchema& schema);

// The texts of a row, in the order of the header.
void write_fields(const PipelineSchema& schema, const PipelineTruth& truth, const PipelineRow& row,
                  std::vector<std::string>& fields);

// Appends one line.
void append_csv(const PipelineSchema& schema, const PipelineTruth& truth, const PipelineRow& row,
                std::string& text);

}  // namespace emblem
