// train/state/onnx_export.h - a checkpoint becomes a model of ONNX.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/device/context.h"

namespace emblem {

struct OnnxExport {
  std::string folder;                // that is made; it must not exist
  std::vector<std::string> outputs;  // of the model (choose_outputs); empty: the default ones
  bool has_rows_beside = false;      // rows of tables in model.onnx.data, whatever their size
};

struct ExportedOnnx {
  int64_t step = 0;  // of the checkpoint
  uint64_t bytes = 0;
};

// Writes a checkpoint, or the latest one of a model dir, on this machine: model/onnx/onnx_export.h
// describes the files. The folder appears whole or not at all. It computes what predictions of
// the checkpoint have, in fp32. The context is a CPU's.
ExportedOnnx export_onnx(const Context& context, const std::string& checkpoint,
                         const OnnxExport& options);

}  // namespace emblem
