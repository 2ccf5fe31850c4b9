// Linear layers, norms and ops on elements and rows as nodes of ONNX.
#include <cmath>

#include "core/math/sigmoid.h"
#include "nn/onnx/layers.h"
#include "nn/ops/dense/bias.h"
#include "nn/ops/dense/concat.h"
#include "nn/ops/dense/dropout.h"
#include "nn/ops/dense/elementwise.h"
#include "nn/ops/dense/linear.h"
#include "nn/ops/dense/row_ops.h"
#include "nn/ops/dense/variational_dropout.h"
#include "nn/ops/norm/norm.h"

namespace emblem {

bool Linear::write_onnx(OnnxLayers& to) const {
  std::string y =
      to.add("MatMul", {to.value(in(0)), to.transposed_parameter(weight_, units_, inputs_)});
  if (bias_ >= 0) y = to.add("Add", {y, to.parameter(bias_, {units_})});
  to.set(out(), to.activate(activation_, y));
  return true;
}

bool BiasOp::write_onnx(OnnxLayers& to) const {
  to.set(out(), to.add("Add", {to.value(in(0)), to.parameter(bias_, {out().cols})}));
  return true;
}

bool BatchNorm::write_onnx(OnnxLayers& to) const {
  const std::span<const float> means = to.statistics(running_mean_, cols_),
                               variances = to.statistics(running_variance_, cols_);
  std::vector<float> factors;
  for (int64_t j = 0; j < cols_; ++j) {
    const float scale = is_affine() ? to.parameters(scale_, cols_)[j] : 1.0f;
    factors.push_back(scale / std::sqrt(variances[j] + kEpsilon));
  }
  std::string y =
      to.add("Sub", {to.value(in(0)), to.constants(out(), "running_mean", {cols_}, means)});
  y = to.add("Mul", {y, to.constants(out(), "factor", {cols_}, factors)});
  if (is_affine()) y = to.add("Add", {y, to.parameter(shift_, {cols_})});
  to.set(out(), to.activate(activation_, y));
  return true;
}

bool LayerNorm::write_onnx(OnnxLayers& to) const {
  const bool is_row = in_row() == 1;
  std::string y = to.add("LayerNormalization",
                         {is_row ? to.value(in(0)) : to.vectors(in(0), cols_),
                          to.parameter(scale_, {cols_}), to.parameter(shift_, {cols_})},
                         {{"axis", int64_t{-1}}, {"epsilon", kEpsilon}});
  if (!is_row) y = to.row(out(), y);
  to.set(out(), to.activate(activation_, y));
  return true;
}

bool Concat::write_onnx(OnnxLayers& to) const {
  std::vector<std::string> parts;
  for (const Tensor* part : inputs()) parts.push_back(to.value(*part));
  to.set(out(), parts.size() == 1 ? parts[0] : to.add("Concat", parts, {{"axis", int64_t{-1}}}));
  return true;
}

bool Slice::write_onnx(OnnxLayers& to) const {
  to.set(out(), to.columns(in(0), first_, first_ + out().cols));
  return true;
}

bool Dropout::write_onnx(OnnxLayers& to) const {
  to.set(out(), to.value(in(0)));
  return true;
}

bool VariationalDropout::write_onnx(OnnxLayers& to) const {
  const std::span<const float> theta = to.parameters(theta_, features_);
  std::vector<float> kept;
  for (int64_t f = 0; f < features_; ++f)
    kept.insert(kept.end(), static_cast<size_t>(begins_[f + 1] - begins_[f]),
                1.0f - sigmoid_inline(theta[f]));
  to.set(out(),
         to.add("Mul", {to.value(in(0)), to.constants(out(), "kept", {std::ssize(kept)}, kept)}));
  return true;
}

bool Sum::write_onnx(OnnxLayers& to) const {
  std::vector<std::string> parts;
  for (const Tensor* part : inputs()) parts.push_back(to.value(*part));
  to.set(out(), to.add("Sum", parts));
  return true;
}

bool Multiply::write_onnx(OnnxLayers& to) const {
  to.set(out(), to.add("Mul", {to.value(in(0)), to.value(in(1))}));
  return true;
}

bool Scale::write_onnx(OnnxLayers& to) const {
  to.set(out(), to.add("Mul", {to.value(in(0)), to.graph().constant(factor_)}));
  return true;
}

bool ScaleBySigmoid::write_onnx(OnnxLayers& to) const {
  const std::string gate =
      to.add("Mul", {to.add("Sigmoid", {to.value(in(1))}), to.graph().constant(factor_)});
  to.set(out(), to.add("Mul", {to.value(in(0)), gate}));
  return true;
}

bool RowSum::write_onnx(OnnxLayers& to) const {
  to.set(out(), out().cols == 1 ? to.sum(to.value(in(0)), -1)
                                : to.sum(to.vectors(in(0), in(0).cols / out().cols), -1, false));
  return true;
}

bool Softmax::write_onnx(OnnxLayers& to) const {
  to.set(out(), to.add("Softmax", {to.value(in(0))}, {{"axis", int64_t{-1}}}));
  return true;
}

bool Normalize::write_onnx(OnnxLayers& to) const {
  const std::string x = to.value(in(0)), length = to.add("ReduceL2", {x}, {{"axes", OnnxDims{-1}}});
  to.set(out(), to.add("Div", {x, to.add("Max", {length, to.graph().constant(kLeast)})}));
  return true;
}

bool StopGradient::write_onnx(OnnxLayers& to) const {
  to.set(out(), to.value(in(0)));
  return true;
}

}  // namespace emblem
