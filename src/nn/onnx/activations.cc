// The activation functions, and the ops that apply them, as nodes of ONNX.
#include "emblem/error.h"
#include "nn/onnx/layers.h"
#include "nn/ops/dense/elementwise.h"
#include "nn/ops/dense/trained_activation.h"

namespace emblem {
namespace {

std::string softplus(OnnxLayers& to, float beta, float threshold, const std::string& x) {
  OnnxGraph& graph = to.graph();
  const std::string scaled = to.add("Mul", {x, graph.constant(beta)});
  const std::string soft = to.add("Div", {to.add("Softplus", {scaled}), graph.constant(beta)});
  return to.add("Where", {to.add("Greater", {scaled, graph.constant(threshold)}), x, soft});
}

std::string gelu(OnnxLayers& to, const std::string& inner, const std::string& x) {
  OnnxGraph& graph = to.graph();
  const std::string half = to.add("Mul", {x, graph.constant(0.5f)});
  return to.add("Mul", {half, to.add("Add", {inner, graph.constant(1.0f)})});
}

std::string gelu_by_tanh(OnnxLayers& to, const std::string& x) {
  using activations::GeluTanh;
  OnnxGraph& graph = to.graph();
  const std::string cube = to.add("Mul", {x, to.add("Mul", {x, x})});
  const std::string sum =
      to.add("Add", {x, to.add("Mul", {cube, graph.constant(GeluTanh::kCube)})});
  return gelu(to, to.add("Tanh", {to.add("Mul", {sum, graph.constant(GeluTanh::kRoot)})}), x);
}

}  // namespace

std::string OnnxLayers::activate(const Activation& activation, const std::string& x) {
  const float first = activation.first, second = activation.second;
  switch (activation.kind) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return add("Relu", {x});
    case Activation::kSigmoid:
      return add("Sigmoid", {x});
    case Activation::kTanh:
      return add("Tanh", {x});
    case Activation::kGelu:
      return gelu(*this, add("Erf", {add("Mul", {x, to_.constant(0.707106781f)})}), x);
    case Activation::kGeluTanh:
      return gelu_by_tanh(*this, x);
    case Activation::kSilu:
      return add("Mul", {x, add("Sigmoid", {x})});
    case Activation::kLeakyRelu:
      return add("LeakyRelu", {x}, {{"alpha", first}});
    case Activation::kElu:
      return add("Elu", {x}, {{"alpha", first}});
    case Activation::kSelu:
      return add("Selu", {x});
    case Activation::kCelu:
      return add("Celu", {x}, {{"alpha", first}});
    case Activation::kSoftplus:
      return softplus(*this, first, second, x);
    case Activation::kSoftsign:
      return add("Softsign", {x});
    case Activation::kHardswish:
      return add("HardSwish", {x});
    case Activation::kHardsigmoid:
      return add("HardSigmoid", {x}, {{"alpha", 1.0f / 6.0f}, {"beta", 0.5f}});
    case Activation::kHardtanh:
    case Activation::kRelu6:
      return add("Clip", {x, to_.constant(first), to_.constant(second)});
    case Activation::kMish:
      return add("Mul", {x, add("Tanh", {add("Softplus", {x})})});
    case Activation::kLogSigmoid:
      return add("Neg", {add("Softplus", {add("Neg", {x})})});
    case Activation::kPrelu:
    case Activation::kDice:
      break;
  }
  throw Error(ErrorCode::kInternal, "ONNX: a trained activation is an op of its own");
}

bool ActivationOp::write_onnx(OnnxLayers& to) const {
  to.set(out(), to.activate(activation_, to.value(in(0))));
  return true;
}

bool Prelu::write_onnx(OnnxLayers& to) const {
  to.set(out(), to.add("PRelu", {to.value(in(0)), to.parameter(slope_, {1})}));
  return true;
}

bool DiceGate::write_onnx(OnnxLayers& to) const {
  const std::string x = to.value(in(0)), gate = to.add("Sigmoid", {to.value(in(1))});
  const std::string rest = to.add("Sub", {to.graph().constant(1.0f), gate});
  const std::string slope = to.add("Mul", {rest, to.parameter(alpha_, {out().cols})});
  to.set(out(), to.add("Mul", {x, to.add("Add", {gate, slope})}));
  return true;
}

}  // namespace emblem
