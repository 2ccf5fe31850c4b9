// model/onnx/onnx_export.h - a model as a file of ONNX that computes what predictions have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/feature/heads.h"
#include "model/model.h"

namespace emblem {

struct OnnxOptions {
  std::vector<OutputSpec> outputs;
  bool has_rows_beside = false;  // even if they would fit into the model's file
  int64_t step = 0;              // that the parameters are of
};

// Writes model.onnx, model.onnx.data where its tables are too large for one file, and the keys of
// dynamic tables (model/onnx/onnx_tables.h) into a folder that exists. Inputs are described in
// model/onnx/onnx_inputs.h; outputs are [batch, cols], named as OutputSpec. The model is on a CPU,
// with tables of its own; `config` and `layout` are those that it was made with. Returns the bytes
// written. Throws kUnsupported with the layer, table or setting that has no form in ONNX.
uint64_t write_onnx(Model& model, const config::PipelineConfig& config, const FeatureLayout& layout,
                    const OnnxOptions& options, const std::string& folder);

}  // namespace emblem
