#include "model/onnx/onnx_export.h"

#include <limits>

#include "emblem/error.h"
#include "model/onnx/onnx_inputs.h"
#include "nn/onnx/onnx.pb.h"

namespace emblem {
namespace {

// Of a file of protobuf, which has less than 2 GiB; the rest is for the layers.
constexpr int64_t kMostBytesOfRows = 1'500'000'000;

int64_t bytes_of_rows(const Model& model) {
  int64_t bytes = 0;
  for (const Table* table : model.tables()) bytes += table->size() * table->dim() * 4;
  return bytes;
}

// What an output is of the logits of its domain.
std::string value_of(OnnxGraph& to, const OutputSpec& output, int64_t classes,
                     const std::string& logits) {
  const auto softmax = [&](const std::string& x) {
    return to.add("Softmax", {x}, {{"axis", int64_t{-1}}});
  };
  switch (output.value) {
    case OutputSpec::Value::kProbability:
      if (classes == 1) return to.add("Sigmoid", {logits});
      return to.add("Slice",
                    {softmax(logits), to.integers({1}), to.integers({2}), to.integers({-1})});
    case OutputSpec::Value::kProbabilities:
      return softmax(logits);
    case OutputSpec::Value::kLogits:
      return logits;
    case OutputSpec::Value::kNumber:
      break;
  }
  return to.add("Add",
                {to.add("Mul", {logits, to.constant(output.deviation)}), to.constant(output.mean)});
}

uint64_t write_model(const onnx::ModelProto& model, const std::string& path) {
  if (model.ByteSizeLong() > std::numeric_limits<int32_t>::max())
    throw Error(ErrorCode::kUnsupported,
                "this model cannot be exported to ONNX: its layers have more than 2 GiB, the limit "
                "of the file");
  FileWriter file(path);
  file.write(model.SerializeAsString());
  file.finish();
  return file.bytes_written();
}

}  // namespace

uint64_t write_onnx(Model& model, const config::PipelineConfig& config, const FeatureLayout& layout,
                    const OnnxOptions& options, const std::string& folder) {
  OnnxGraph to(model.name());
  to.model().set_model_version(options.step);
  const bool is_large = bytes_of_rows(model) > kMostBytesOfRows;
  OnnxTables tables(to, folder,
                    options.has_rows_beside || is_large ? OnnxRows::kBeside : OnnxRows::kInModel);
  OnnxInputs inputs(model, config, layout, to, tables);
  OnnxLayers layers(model.graph(), to);
  inputs.feed(layers);
  for (const OutputSpec& output : options.outputs) {
    const Head& head = model.heads().at(static_cast<size_t>(output.head));
    layers.write({head.logits});
    const int64_t classes = head.spec.classes, begin = output.domain * classes;
    const std::string logits = layers.columns(head.logits, begin, begin + classes);
    to.output(output.name, value_of(to, output, classes, logits), {"batch", output.cols});
  }
  tables.finish();
  return write_model(to.model(), folder + "/model.onnx") + tables.bytes_beside();
}

}  // namespace emblem
