// data/synth/pipeline_text.h - synthetic rows of a pipeline as lines of CSV.
#pragma once

#include <string>

#include "data/synth/pipeline_truth.h"

namespace emblem {

// The names of all columns: labels, weights, inputs of features.
std::string csv_header(const SynthPlan& plan);

// Appends one line.
void append_csv(const SynthPlan& plan, const PipelineTruth& truth, const PlanRow& row,
                std::string& text);

}  // namespace emblem
