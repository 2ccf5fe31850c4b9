// data/synth/pipeline_block.h - synthetic rows of a pipeline as blocks of columns: bags and
// sequences as what they are, for formats with lists.
#pragma once

#include <vector>

#include "data/format/decoder.h"
#include "data/synth/pipeline_truth.h"

namespace emblem {

// Made once; fill may run concurrently. Borrows what it is made from.
class PipelineBlocks {
 public:
  PipelineBlocks(const SynthPlan& plan, const PipelineTruth& truth);

  // The columns of the blocks: labels, weights, inputs of features.
  const std::vector<ColumnSpec>& schema() const { return schema_; }

  // Overwrites `block`. Values are those that a CSV file of the same rows has.
  void fill(const std::vector<PlanRow>& rows, Block& block) const;

 private:
  void add_column(const PlanColumn& column);

  const SynthPlan& plan_;
  const PipelineTruth& truth_;
  std::vector<ColumnSpec> schema_;
  std::vector<ColumnRequest> requests_;
};

}  // namespace emblem
