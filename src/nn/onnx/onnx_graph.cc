#include "nn/onnx/onnx_graph.h"

#include <bit>

#include "emblem/api.h"
#include "emblem/error.h"
#include "nn/onnx/onnx.pb.h"

namespace emblem {
namespace {

constexpr int64_t kOpset = 17;
constexpr int64_t kFormat = 8;  // the version of the format that came with this opset

static_assert(std::endian::native == std::endian::little, "raw_data is little-endian");

void describe(onnx::ValueInfoProto& value, const std::string& name, OnnxType type,
              const std::vector<OnnxAxis>& axes) {
  value.set_name(name);
  auto& tensor = *value.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type == OnnxType::kFloat ? onnx::TensorProto::FLOAT
                                                : onnx::TensorProto::INT64);
  for (const OnnxAxis& axis : axes) {
    auto& dim = *tensor.mutable_shape()->add_dim();
    if (const auto* length = std::get_if<int64_t>(&axis))
      dim.set_dim_value(*length);
    else
      dim.set_dim_param(std::get<std::string>(axis));
  }
}

void set_attribute(onnx::AttributeProto& to, const OnnxAttribute& from) {
  to.set_name(from.name);
  if (const auto* integer = std::get_if<int64_t>(&from.value)) {
    to.set_type(onnx::AttributeProto::INT);
    to.set_i(*integer);
  } else if (const auto* number = std::get_if<float>(&from.value)) {
    to.set_type(onnx::AttributeProto::FLOAT);
    to.set_f(*number);
  } else {
    to.set_type(onnx::AttributeProto::INTS);
    for (const int64_t value : std::get<OnnxDims>(from.value)) to.add_ints(value);
  }
}

}  // namespace

OnnxGraph::OnnxGraph(const std::string& name) : model_(std::make_unique<onnx::ModelProto>()) {
  model_->set_ir_version(kFormat);
  model_->set_producer_name("emblem");
  model_->set_producer_version(kVersion);
  model_->add_opset_import()->set_version(kOpset);
  model_->mutable_graph()->set_name(name);
}

OnnxGraph::~OnnxGraph() = default;

void OnnxGraph::take_name(const std::string& name) {
  if (!names_.insert(name).second)
    throw Error(ErrorCode::kInvalidArgument,
                cat("this model cannot be exported to ONNX: two of its inputs and outputs would "
                    "have the name \"",
                    name, "\"; rename a feature"));
}

std::string OnnxGraph::add(const std::string& op, const std::vector<std::string>& inputs,
                           const std::vector<OnnxAttribute>& attributes) {
  const std::string name = cat("/", op, "_", nodes_of_op_[op]++);
  take_name(name);
  onnx::NodeProto& node = *model_->mutable_graph()->add_node();
  node.set_name(name);
  node.set_op_type(op);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(name);
  for (const OnnxAttribute& attribute : attributes) set_attribute(*node.add_attribute(), attribute);
  return name;
}

std::string OnnxGraph::constant(float value) {
  const auto [at, is_new] = constants_.try_emplace(value, cat("/constant_", constants_.size()));
  if (is_new) floats(at->second, {}, {&value, 1});
  return at->second;
}

std::string OnnxGraph::integers(const OnnxDims& values) {
  const auto [at, is_new] = integers_.try_emplace(values, cat("/integers_", integers_.size()));
  if (!is_new) return at->second;
  take_name(at->second);
  onnx::TensorProto& made = *model_->mutable_graph()->add_initializer();
  made.set_name(at->second);
  made.set_data_type(onnx::TensorProto::INT64);
  made.add_dims(std::ssize(values));
  made.set_raw_data(values.data(), values.size() * sizeof(int64_t));
  return at->second;
}

std::string OnnxGraph::floats(const std::string& name, const OnnxDims& dims,
                              std::span<const float> values) {
  if (!has(name)) tensor(name, dims).set_raw_data(values.data(), values.size_bytes());
  return name;
}

onnx::TensorProto& OnnxGraph::tensor(const std::string& name, const OnnxDims& dims) {
  take_name(name);
  onnx::TensorProto& made = *model_->mutable_graph()->add_initializer();
  made.set_name(name);
  made.set_data_type(onnx::TensorProto::FLOAT);
  for (const int64_t dim : dims) made.add_dims(dim);
  return made;
}

std::string OnnxGraph::input(const std::string& name, OnnxType type,
                             const std::vector<OnnxAxis>& axes, const std::string& text) {
  take_name(name);
  onnx::ValueInfoProto& made = *model_->mutable_graph()->add_input();
  describe(made, name, type, axes);
  made.set_doc_string(text);
  return name;
}

void OnnxGraph::output(const std::string& name, const std::string& value,
                       const std::vector<OnnxAxis>& axes) {
  take_name(name);
  onnx::NodeProto& node = *model_->mutable_graph()->add_node();
  node.set_name(cat("/output/", name));
  node.set_op_type("Identity");
  node.add_input(value);
  node.add_output(name);
  describe(*model_->mutable_graph()->add_output(), name, OnnxType::kFloat, axes);
}

}  // namespace emblem
