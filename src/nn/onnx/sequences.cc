// Ops over the elements of sequences as nodes of ONNX, whose rows are padded.
#include <cstdint>

#include "emblem/error.h"
#include "nn/onnx/layers.h"
#include "nn/ops/attention/attention_pool.h"
#include "nn/ops/attention/capsules.h"
#include "nn/ops/attention/din.h"
#include "nn/ops/attention/din_linear.h"
#include "nn/ops/attention/self_attention.h"
#include "nn/ops/vectors/regroup.h"
#include "nn/ops/vectors/segment.h"

namespace emblem {
namespace {

constexpr float kNever = -1e38f;  // a score whose share is 0

// x [batch, cols] beside the elements of its row: [batch, 1, cols].
std::string beside(OnnxLayers& to, const std::string& x) {
  return to.add("Unsqueeze", {x, to.graph().integers({1})});
}

// The first columns of x [.., cols].
std::string first_columns(OnnxLayers& to, const std::string& x, int64_t cols) {
  return to.add("Slice", {x, to.graph().integers({0}), to.graph().integers({cols}),
                          to.graph().integers({-1})});
}

// The query of each row, [batch, 1, m], extended by zeros.
std::string extended_query(OnnxLayers& to, const Tensor& q, int64_t m) {
  std::string x = to.value(q);
  if (q.cols < m) x = to.add("Pad", {x, to.graph().integers({0, 0, 0, m - q.cols})});
  return beside(to, x);
}

// Which of its capsules a row has, bool [batch, capsules].
std::string capsules_there(OnnxLayers& to, Space space, const CapsuleOptions& options) {
  OnnxDims more_than;  // elements
  for (int k = 0; k < options.capsules; ++k) {
    const bool is_always = k == 0 || options.count == CapsuleOptions::Count::kFixed;
    more_than.push_back(is_always ? -1 : k < 31 ? int64_t{1} << k : INT64_MAX);
  }
  return to.add("Less", {to.graph().integers(more_than), to.lengths(space)});
}

// scores [batch, elements, capsules] as shares of each element.
std::string shares_of(OnnxLayers& to, const CapsuleOptions& options, const std::string& there,
                      const std::string& mask, const std::string& scores) {
  OnnxGraph& graph = to.graph();
  const std::string scaled = to.add("Mul", {scores, graph.constant(options.scale)});
  const std::string shares =
      to.add("Softmax", {to.add("Where", {there, scaled, graph.constant(kNever)})},
             {{"axis", int64_t{-1}}});
  return to.add("Where", {mask, shares, graph.constant(0.0f)});
}

std::string squashed(OnnxLayers& to, const CapsuleOptions& options, const std::string& v) {
  OnnxGraph& graph = to.graph();
  const std::string length =
      to.add("Max", {to.add("ReduceL2", {v}, {{"axes", OnnxDims{-1}}}), graph.constant(1e-7f)});
  const std::string least = to.add("Mul", {length, length});
  const std::string ratio = to.add("Div", {least, to.add("Add", {least, graph.constant(1.0f)})});
  const std::string power = to.add("Pow", {ratio, graph.constant(options.squash_power)});
  return to.add("Mul", {v, to.add("Div", {power, length})});
}

}  // namespace

bool Repeat::write_onnx(OnnxLayers& to) const {
  to.set(out(), to.repeat(to.value(in(0)), out().space));
  return true;
}

bool SegmentSum::write_onnx(OnnxLayers& to) const {
  const Space space = in(0).space;
  const std::string sum = to.sum(to.without_padding(space, to.value(in(0))), 1, false);
  if (divide_ == Divide::kNone) {
    to.set(out(), sum);
    return true;
  }
  const std::string count = to.add("Max", {to.float_lengths(space), to.graph().constant(1.0f)});
  to.set(out(), to.add("Div", {sum, count}));
  return true;
}

bool WindowMeans::write_onnx(OnnxLayers& to) const {
  OnnxGraph& graph = to.graph();
  const Space space = in(0).space;
  const std::string x = to.without_padding(space, to.value(in(0))),
                    lengths = to.float_lengths(space);
  std::vector<std::string> means;
  for (int w = 0; w < windows_.count; ++w) {
    const int32_t begin = windows_.begin(w), end = windows_.ends[w];
    const std::string window =
        to.add("Slice", {x, graph.integers({begin}), graph.integers({end}), graph.integers({1})});
    const std::string count =
        to.add("Clip", {to.add("Sub", {lengths, graph.constant(static_cast<float>(begin))}),
                        graph.constant(1.0f), graph.constant(static_cast<float>(end - begin))});
    means.push_back(to.add("Div", {to.sum(window, 1, false), count}));
  }
  to.set(out(), means.size() == 1 ? means[0] : to.add("Concat", means, {{"axis", int64_t{-1}}}));
  return true;
}

bool AttentionPool::write_onnx(OnnxLayers& to) const {
  const Space space = in(0).space;
  std::string scores = to.value(in(0));
  const std::string mask = to.mask(space);
  if (!mask.empty())
    scores = to.add("Where", {to.add("Unsqueeze", {mask, to.graph().integers({-1})}), scores,
                              to.graph().constant(kNever)});
  std::string shares = to.add("Softmax", {scores}, {{"axis", int64_t{1}}});
  shares = to.without_padding(space, shares);  // a row without elements has none
  const std::string x = to.without_padding(space, to.value(in(1)));
  to.set(out(), to.sum(to.add("Mul", {shares, x}), 1, false));
  return true;
}

bool DinFeatures::write_onnx(OnnxLayers& to) const {
  const std::string s = to.value(in(1)), q = extended_query(to, in(0), in(1).cols);
  const std::string each = to.add("Expand", {q, to.add("Shape", {s})});
  to.set(out(), to.add("Concat", {each, s, to.add("Sub", {q, s}), to.add("Mul", {q, s})},
                       {{"axis", int64_t{-1}}}));
  return true;
}

bool DinLinear::write_onnx(OnnxLayers& to) const {
  const std::span<const float> weights = to.parameters(weight_, units_ * 4 * m_);
  std::vector<float> of_rows, of_elements;  // [n, units] and [m + n, units]
  for (int64_t j = 0; j < n_; ++j)
    for (int64_t u = 0; u < units_; ++u)
      of_rows.push_back(fold().of_row(weights.data() + u * 4 * m_, j));
  for (int64_t j = 0; j < inputs(); ++j)
    for (int64_t u = 0; u < units_; ++u)
      of_elements.push_back(j < m_ ? fold().of_element(weights.data() + u * 4 * m_, j)
                                   : weights[static_cast<size_t>(u * 4 * m_ + 3 * m_ + (j - m_))]);
  const std::string q = to.value(in(0)), s = to.value(in(1));
  const std::string compared = n_ < m_ ? first_columns(to, s, n_) : s;
  const std::string products = to.add("Mul", {beside(to, q), compared});
  std::string row = to.add("MatMul", {q, to.constants(out(), "rows", {n_, units_}, of_rows)});
  if (bias_ >= 0) row = to.add("Add", {row, to.parameter(bias_, {units_})});
  const std::string element =
      to.add("MatMul", {to.add("Concat", {s, products}, {{"axis", int64_t{-1}}}),
                        to.constants(out(), "elements", {inputs(), units_}, of_elements)});
  to.set(out(), to.activate(activation_, to.add("Add", {element, beside(to, row)})));
  return true;
}

bool DotWithRow::write_onnx(OnnxLayers& to) const {
  const std::string products = to.add("Mul", {beside(to, to.value(in(0))), to.value(in(1))});
  to.set(out(), to.sum(products, -1));
  return true;
}

bool SelfAttention::write_onnx(OnnxLayers& to) const {
  OnnxGraph& graph = to.graph();
  const std::string mask = to.mask(out().space);
  const auto heads = [&](size_t input, const OnnxDims& order) {
    const std::string split =
        to.add("Reshape", {to.value(in(input)), graph.integers({0, 0, heads_, head_cols()})});
    return to.add("Transpose", {split}, {{"perm", order}});
  };
  std::string scores = to.add("MatMul", {heads(0, {0, 2, 1, 3}), heads(1, {0, 2, 3, 1})});
  scores = to.add("Mul", {scores, graph.constant(scale())});
  if (!mask.empty())
    scores = to.add("Where", {to.add("Unsqueeze", {mask, graph.integers({1, 2})}), scores,
                              graph.constant(kNever)});
  const std::string shares = to.add("Softmax", {scores}, {{"axis", int64_t{-1}}});
  const std::string mixed = to.add("MatMul", {shares, heads(2, {0, 2, 1, 3})});
  to.set(out(), to.row(out(), to.add("Transpose", {mixed}, {{"perm", OnnxDims{0, 2, 1, 3}}})));
  return true;
}

bool RegroupVectors::write_onnx(OnnxLayers& to) const {
  const bool splits = out().space != Space{};
  const OnnxDims dims =
      splits ? OnnxDims{0, in(0).cols / out().cols, out().cols} : OnnxDims{0, out().cols};
  to.set(out(), to.add("Reshape", {to.value(in(0)), to.graph().integers(dims)}));
  return true;
}

bool Capsules::write_onnx(OnnxLayers& to) const {
  OnnxGraph& graph = to.graph();
  const Space space = in(0).space;
  const int64_t most =
      options_.most_elements > 0 ? options_.most_elements : to.most_elements(space);
  if (most <= 0)  // every place in a row has first logits of its own
    throw Error(ErrorCode::kUnsupported,
                cat("this model cannot be exported to ONNX: its layer capsules reads histories of "
                    "any length; train it with capsule_config { max_seq_len: ... }"));
  const int64_t capsules = options_.capsules;
  std::vector<float> logits;
  for (int64_t t = 0; t < most; ++t)
    for (int k = 0; k < capsules; ++k)
      logits.push_back(options_.first_logit(static_cast<int32_t>(t), k));
  const auto first_elements = [&](const std::string& x) {
    return to.add("Slice", {x, graph.integers({0}), graph.integers({most}), graph.integers({1})});
  };
  const std::string x = first_elements(to.without_padding(space, to.value(in(0))));
  const std::string mask =
      first_elements(to.add("Unsqueeze", {to.mask(space), graph.integers({-1})}));
  const std::string there = beside(to, capsules_there(to, space, options_));
  const std::string length = to.add("Slice", {to.add("Shape", {x}), graph.integers({1}),
                                              graph.integers({2}), graph.integers({0})});
  std::string scores = to.add("Slice", {to.constants(out(), "first", {most, capsules}, logits),
                                        graph.integers({0}), length, graph.integers({0})});
  const std::string norms =
      to.add("Max", {to.add("ReduceL2", {x}, {{"axes", OnnxDims{-1}}}), graph.constant(1e-12f)});
  const std::string directions = to.add("Div", {x, norms});
  std::string sums;
  for (int iteration = 1;; ++iteration) {
    const std::string shares = shares_of(to, options_, there, mask, scores);
    sums = to.add("MatMul", {to.add("Transpose", {shares}, {{"perm", OnnxDims{0, 2, 1}}}), x});
    if (iteration == options_.iterations) break;
    const std::string agreement =
        to.add("MatMul", {directions, to.add("Transpose", {sums}, {{"perm", OnnxDims{0, 2, 1}}})});
    scores = to.add("Add", {shares, agreement});
  }
  to.set(out(), to.row(out(), squashed(to, options_, sums)));
  return true;
}

bool CapsuleMask::write_onnx(OnnxLayers& to) const {
  const std::string there = capsules_there(to, in(0).space, options_);
  to.set(out(),
         to.add("Where", {there, to.graph().constant(there_), to.graph().constant(missing_)}));
  return true;
}

}  // namespace emblem
