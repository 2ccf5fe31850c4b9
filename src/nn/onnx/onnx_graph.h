// nn/onnx/onnx_graph.h - a graph of ONNX (opset 17) under construction.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace emblem {

namespace onnx {
class ModelProto;
class TensorProto;
class ValueInfoProto;
}  // namespace onnx

using OnnxDims = std::vector<int64_t>;
// A length, or the name of one that may differ from run to run.
using OnnxAxis = std::variant<int64_t, std::string>;
enum class OnnxType { kFloat, kInt64 };

struct OnnxAttribute {
  std::string name;
  std::variant<int64_t, float, OnnxDims> value;
};

// Values are known by their names. One thread uses it at a time.
class OnnxGraph {
 public:
  explicit OnnxGraph(const std::string& name);
  ~OnnxGraph();
  OnnxGraph(const OnnxGraph&) = delete;
  OnnxGraph& operator=(const OnnxGraph&) = delete;

  // Adds a node; the name of its output.
  std::string add(const std::string& op, const std::vector<std::string>& inputs,
                  const std::vector<OnnxAttribute>& attributes = {});

  // A scalar, and a vector of integers; equal ones are one initializer.
  std::string constant(float value);
  std::string integers(const OnnxDims& values);
  // An initializer of this name, made once.
  std::string floats(const std::string& name, const OnnxDims& dims, std::span<const float> values);
  // A float initializer whose numbers the caller adds to it.
  onnx::TensorProto& tensor(const std::string& name, const OnnxDims& dims);
  bool has(const std::string& name) const { return names_.contains(name); }

  std::string input(const std::string& name, OnnxType type, const std::vector<OnnxAxis>& axes,
                    const std::string& text);
  // `value` is the output `name`.
  void output(const std::string& name, const std::string& value, const std::vector<OnnxAxis>& axes);

  onnx::ModelProto& model() { return *model_; }

 private:
  void take_name(const std::string& name);

  std::unique_ptr<onnx::ModelProto> model_;
  std::set<std::string> names_;
  std::map<std::string, int64_t> nodes_of_op_;
  std::map<float, std::string> constants_;
  std::map<OnnxDims, std::string> integers_;
};

}  // namespace emblem
