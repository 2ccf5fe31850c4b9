// data/synth/pipeline_items.h - the files that the sampler of a pipeline reads.
#pragma once

#include <cstdint>
#include <string>

#include "data/synth/pipeline_truth.h"

namespace emblem {

// Writes items.txt: all items of schema.items with their attributes. Of a sampler that reads edges,
// also users.txt, the users of the first `rows` rows of the training data; positive_edges.txt, the
// items of their rows whose first label is above 0; and hard_edges.txt, the other items of their
// rows. Of tdm_sampler the tree of the items instead. Returns the bytes.
int64_t write_sampler_files(const std::string& folder, const PipelineSchema& schema,
                            const PipelineTruth& truth, int64_t rows);

}  // namespace emblem
