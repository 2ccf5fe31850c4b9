// Products of features, lists of vectors and experts as nodes of ONNX.
#include "nn/onnx/layers.h"
#include "nn/ops/interaction/cross.h"
#include "nn/ops/interaction/interaction.h"
#include "nn/ops/vectors/autodis.h"
#include "nn/ops/vectors/mix.h"
#include "nn/ops/vectors/vectors.h"

namespace emblem {

bool CrossLayer::write_onnx(OnnxLayers& to) const {
  const std::string x0 = to.value(in(0)), x = to.value(in(1));
  const std::string product = to.add("MatMul", {x, to.parameter(weight_, {cols_, 1})});
  const std::string y = to.add("Add", {to.add("Mul", {x0, product}), to.parameter(bias_, {cols_})});
  to.set(out(), to.add("Add", {y, x}));
  return true;
}

bool CrossCombine::write_onnx(OnnxLayers& to) const {
  const std::string product = to.add("Mul", {to.value(in(0)), to.value(in(1))});
  to.set(out(), to.add("Add", {product, to.value(in(2))}));
  return true;
}

bool Interaction::write_onnx(OnnxLayers& to) const {
  std::string all = to.vectors(x(), dim_);
  if (has_first()) all = to.add("Concat", {to.vectors(in(0), dim_), all}, {{"axis", int64_t{-2}}});
  const std::string products = to.add("MatMul", {all, to.transposed_vectors(out(), all)});
  const std::string flat =
      to.add("Reshape", {products, to.graph().integers(out().space == Space{}
                                                           ? OnnxDims{0, vectors_ * vectors_}
                                                           : OnnxDims{0, 0, vectors_ * vectors_})});
  OnnxDims pairs;
  for (int64_t i = 1; i < vectors_; ++i)
    for (int64_t j = 0; j < i; ++j) pairs.push_back(i * vectors_ + j);
  const std::string y =
      to.add("Gather", {flat, to.graph().integers(pairs)}, {{"axis", int64_t{-1}}});
  to.set(out(), has_first() ? to.add("Concat", {to.value(in(0)), y}, {{"axis", int64_t{-1}}}) : y);
  return true;
}

bool FactorizationMachine::write_onnx(OnnxLayers& to) const {
  const std::string x = to.vectors(in(0), dim_);
  const std::string sum = to.sum(x, -2, false);
  const std::string squares = to.sum(to.add("Mul", {x, x}), -2, false);
  const std::string twice = to.add("Sub", {to.add("Mul", {sum, sum}), squares});
  to.set(out(), to.add("Mul", {twice, to.graph().constant(0.5f)}));
  return true;
}

bool Mix::write_onnx(OnnxLayers& to) const {
  std::vector<std::string> parts;
  for (int64_t k = 0; k < experts(); ++k)
    parts.push_back(to.add("Mul", {to.columns(in(0), k, k + 1), to.value(in(1 + k))}));
  to.set(out(), parts.size() == 1 ? parts[0] : to.add("Sum", parts));
  return true;
}

bool MixVectors::write_onnx(OnnxLayers& to) const {
  const std::string mixed =
      to.add("MatMul", {to.transposed_parameter(weight_, n_, m_), to.vectors(in(0), dim_)});
  to.set(out(), to.row(out(), mixed));
  return true;
}

bool VectorProducts::write_onnx(OnnxLayers& to) const {
  const std::string others = to.transposed_vectors(in(1), to.vectors(in(1), dim_));
  to.set(out(), to.row(out(), to.add("MatMul", {to.vectors(in(0), dim_), others})));
  return true;
}

bool CinLayer::write_onnx(OnnxLayers& to) const {
  if (out().space != Space{}) return false;
  OnnxGraph& graph = to.graph();
  const std::string x = to.add("Reshape", {to.value(in(0)), graph.integers({0, n_, 1, dim_})}),
                    x0 = to.add("Reshape", {to.value(in(1)), graph.integers({0, 1, m_, dim_})});
  const std::string products =
      to.add("Reshape", {to.add("Mul", {x, x0}), graph.integers({0, n_ * m_, dim_})});
  const std::string y =
      to.add("Add", {to.add("MatMul", {to.parameter(weight_, {units_, n_ * m_}), products}),
                     to.parameter(bias_, {units_, 1})});
  to.set(out(), to.row(out(), y));
  return true;
}

bool Autodis::write_onnx(OnnxLayers& to) const {
  if (out().space != Space{}) return false;
  const auto [dim, channels, temperature, keep] = options_;
  OnnxGraph& graph = to.graph();
  const std::string numbers =
      to.add("Reshape", {to.value(in(0)), graph.integers({0, features_, 1, 1})});
  const std::string scaled =
      to.add("Mul", {to.parameter(weight_, {features_, channels, 1}), numbers});
  const std::string hidden = to.add("LeakyRelu", {scaled}, {{"alpha", kNegativeSlope}});
  const std::string mixed =
      to.add("MatMul", {to.parameter(matrix_, {features_, channels, channels}), hidden});
  const std::string scores =
      to.add("Div", {to.add("Add", {mixed, to.add("Mul", {hidden, graph.constant(keep)})}),
                     graph.constant(temperature)});
  const std::string shares = to.add("Softmax", {scores}, {{"axis", int64_t{-2}}});
  const std::string picked =
      to.add("MatMul", {to.add("Transpose", {shares}, {{"perm", OnnxDims{0, 1, 3, 2}}}),
                        to.parameter(vectors_, {features_, channels, dim})});
  to.set(out(), to.row(out(), picked));
  return true;
}

}  // namespace emblem
