// checkpoint/input_ranges.h - what layers need to compute in int8, in the file of dense parameters
// of an exported model.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "nn/graph.h"

namespace emblem {

// Four tensors for each layer; `ranges` must outlive them.
std::vector<TensorRef> tensors_of(const LayerRanges& ranges);

bool is_input_range(const TensorRef& tensor);

// Gives the graph's layers their ranges. Throws kInvalidArgument when the file has none.
void read_input_ranges(const SafetensorsFile& file, const std::string& path, Graph& graph);

}  // namespace emblem
