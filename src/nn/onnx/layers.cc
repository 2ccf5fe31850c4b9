#include "nn/onnx/layers.h"

#include <algorithm>
#include <set>

#include "emblem/error.h"
#include "nn/graph_state.h"

namespace emblem {
namespace {

const Parameter& parameter_at(std::span<const Parameter> list, int64_t begin) {
  const auto found = std::find_if(list.begin(), list.end(),
                                  [&](const Parameter& one) { return one.begin == begin; });
  if (found == list.end())
    throw Error(ErrorCode::kInternal, cat("ONNX: no parameter begins at ", begin));
  return *found;
}

std::span<const float> part_of(View<float> all, int64_t begin, int64_t count) {
  return {all.data + begin, static_cast<size_t>(count)};
}

// The ops that the tensors depend on, in their order.
std::vector<const Op*> ops_for(const GraphState& state, std::set<const Tensor*> needed) {
  std::vector<const Op*> ops;
  for (auto op = state.ops.rbegin(); op != state.ops.rend(); ++op) {
    if ((*op)->output() == nullptr || !needed.contains((*op)->output())) continue;
    ops.push_back(op->get());
    needed.insert((*op)->inputs().begin(), (*op)->inputs().end());
  }
  std::reverse(ops.begin(), ops.end());
  return ops;
}

}  // namespace

OnnxLayers::OnnxLayers(Graph& graph, OnnxGraph& to) : from_(graph), to_(to) {}

void OnnxLayers::feed(Node node, std::vector<OnnxPiece> pieces) {
  Input& input = inputs_[graph_state(from_).tensor(node, "ONNX")];
  input.made.resize(pieces.size());
  input.pieces = std::move(pieces);
}

void OnnxLayers::feed(Space space, OnnxSequence sequence) {
  sequences_[space.id] = std::move(sequence);
}

void OnnxLayers::write(const std::vector<Node>& nodes) {
  GraphState& state = graph_state(from_);
  std::set<const Tensor*> needed;
  for (const Node node : nodes) needed.insert(state.tensor(node, "ONNX"));
  for (const Op* op : ops_for(state, std::move(needed))) {
    if (values_.contains(op->output())) continue;
    if (!op->write_onnx(*this))
      throw Error(ErrorCode::kUnsupported,
                  cat("this model cannot be exported to ONNX: its layer ", op->kind(), " (",
                      op->output()->name, ") has no ONNX form"));
  }
}

std::string OnnxLayers::value(Node node) { return value(*graph_state(from_).tensor(node, "ONNX")); }

std::string OnnxLayers::columns(Node node, int64_t begin, int64_t end) {
  return columns(*graph_state(from_).tensor(node, "ONNX"), begin, end);
}

std::string OnnxLayers::value(const Tensor& tensor) {
  if (const auto found = values_.find(&tensor); found != values_.end()) return found->second;
  return values_[&tensor] = columns(tensor, 0, tensor.cols);
}

void OnnxLayers::set(const Tensor& tensor, const std::string& value) { values_[&tensor] = value; }

std::string OnnxLayers::piece(Input& input, size_t at) {
  if (input.made[at].empty()) input.made[at] = input.pieces[at].make();
  return input.made[at];
}

std::string OnnxLayers::columns(const Tensor& tensor, int64_t begin, int64_t end) {
  if (const auto found = values_.find(&tensor); found != values_.end()) {
    if (begin == 0 && end == tensor.cols) return found->second;
    return add("Slice",
               {found->second, to_.integers({begin}), to_.integers({end}), to_.integers({-1})});
  }
  const auto fed = inputs_.find(&tensor);
  if (fed == inputs_.end())
    throw Error(ErrorCode::kUnsupported, cat("this model cannot be exported to ONNX: its input \"",
                                             tensor.name, "\" exists only in training"));
  std::vector<std::string> parts;
  int64_t first = 0;  // column of the first part
  for (size_t at = 0, col = 0; at < fed->second.pieces.size(); ++at) {
    const auto piece_begin = static_cast<int64_t>(col);
    col += static_cast<size_t>(fed->second.pieces[at].cols);
    if (piece_begin >= end || static_cast<int64_t>(col) <= begin) continue;
    if (parts.empty()) first = piece_begin;
    parts.push_back(piece(fed->second, at));
    if (static_cast<int64_t>(col) < end) continue;
    const std::string joined =
        parts.size() == 1 ? parts[0] : add("Concat", parts, {{"axis", int64_t{-1}}});
    if (first == begin && static_cast<int64_t>(col) == end) return joined;
    return add("Slice", {joined, to_.integers({begin - first}), to_.integers({end - first}),
                         to_.integers({-1})});
  }
  throw Error(ErrorCode::kInternal, cat("ONNX: \"", tensor.name, "\" has no column ", end - 1));
}

std::span<const float> OnnxLayers::parameters(int64_t begin, int64_t count) const {
  return part_of(from_.parameters(), begin, count);
}

std::span<const float> OnnxLayers::statistics(int64_t begin, int64_t count) const {
  return part_of(from_.statistics(), begin, count);
}

std::string OnnxLayers::parameter(int64_t begin, const OnnxDims& dims) {
  const Parameter& from = parameter_at(from_.parameter_list(), begin);
  return to_.floats("layers/" + from.name, dims, parameters(begin, from.rows * from.cols));
}

std::string OnnxLayers::transposed_parameter(int64_t begin, int64_t rows, int64_t cols) {
  const std::span<const float> from = parameters(begin, rows * cols);
  std::vector<float> transposed(from.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) transposed[c * rows + r] = from[r * cols + c];
  const std::string name = parameter_at(from_.parameter_list(), begin).name;
  return to_.floats(cat("layers/", name, ".transposed"), {cols, rows}, transposed);
}

std::string OnnxLayers::constants(const Tensor& output, const std::string& what,
                                  const OnnxDims& dims, std::span<const float> values) {
  const std::string first = cat("layers/", output.name, ".", what);
  std::string name = first;
  for (int64_t i = 1; to_.has(name); ++i) name = cat(first, ".", i);
  return to_.floats(name, dims, values);
}

std::string OnnxLayers::vectors(const Tensor& tensor, int64_t dim) {
  OnnxDims dims = tensor.space == Space{} ? OnnxDims{0} : OnnxDims{0, 0};
  dims.insert(dims.end(), {tensor.cols / dim, dim});
  return add("Reshape", {value(tensor), to_.integers(dims)});
}

std::string OnnxLayers::row(const Tensor& tensor, const std::string& vectors) {
  return add("Reshape",
             {vectors, to_.integers(tensor.space == Space{} ? OnnxDims{0, tensor.cols}
                                                            : OnnxDims{0, 0, tensor.cols})});
}

std::string OnnxLayers::transposed_vectors(const Tensor& tensor, const std::string& vectors) {
  const OnnxDims order = tensor.space == Space{} ? OnnxDims{0, 2, 1} : OnnxDims{0, 1, 3, 2};
  return add("Transpose", {vectors}, {{"perm", order}});
}

std::string OnnxLayers::sum(const std::string& x, int64_t axis, bool keeps_axis) {
  return add("ReduceSum", {x, to_.integers({axis})}, {{"keepdims", int64_t{keeps_axis}}});
}

// ---- sequences ----

int64_t OnnxLayers::fixed_count(Space space) const {
  return graph_state(from_).sequence(space, "ONNX").fixed_count;
}

const OnnxSequence& OnnxLayers::sequence(Space space) const {
  const auto found = sequences_.find(space.id);
  if (found == sequences_.end())
    throw Error(ErrorCode::kUnsupported,
                cat("this model cannot be exported to ONNX: ",
                    graph_state(from_).name_of_space(space), " exists only in training"));
  return found->second;
}

int64_t OnnxLayers::most_elements(Space space) const { return sequence(space).most; }

std::string OnnxLayers::lengths(Space space) { return sequence(space).lengths(); }

std::string OnnxLayers::float_lengths(Space space) {
  return add("Cast", {lengths(space)}, {{"to", int64_t{1}}});
}

std::string OnnxLayers::mask(Space space) {
  if (fixed_count(space) > 0) return "";
  const auto [at, is_new] = masks_.try_emplace(space.id);
  if (is_new) {
    const std::string ones = add("Expand", {to_.integers({1}), sequence(space).padded()});
    const std::string places = add("CumSum", {ones, to_.integers({0})});  // 1, 2, ...
    at->second = add("LessOrEqual", {places, lengths(space)});
  }
  return at->second;
}

std::string OnnxLayers::without_padding(Space space, const std::string& x) {
  const std::string mask = this->mask(space);
  if (mask.empty()) return x;
  return add("Where", {add("Unsqueeze", {mask, to_.integers({-1})}), x, to_.constant(0.0f)});
}

std::string OnnxLayers::repeat(const std::string& x, Space space) {
  const int64_t count = fixed_count(space);
  const std::string shape =
      count > 0 ? to_.integers({1, count, 1})
                : add("Concat", {to_.integers({1}), sequence(space).padded(), to_.integers({1})},
                      {{"axis", int64_t{0}}});
  return add("Expand", {add("Unsqueeze", {x, to_.integers({1})}), shape});
}

}  // namespace emblem
