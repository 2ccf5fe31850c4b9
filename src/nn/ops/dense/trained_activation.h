// nn/ops/dense/trained_activation.h - activations with parameters of their own.
#pragma once

#include <string>

#include "nn/ops/op.h"

namespace emblem {

// y = x above 0, else slope x; adds the parameter NAME.weight [1, 1].
class Prelu : public DeviceOp<Prelu> {
 public:
  Prelu(Tensor* x, Tensor* out, const std::string& name, float initial, ParameterSet& parameters)
      : DeviceOp({x}, out),
        slope_(parameters.add(name + ".weight", 1, 1, Initial::constant(initial))) {}
  const char* kind() const override { return "prelu"; }
  bool has_parameters() const override { return true; }
  double flops_per_row() const override { return static_cast<double>(out().cols); }
  int64_t workspace_floats(Device device, int64_t max_rows) const override {
    return out().cols * (most_row_groups(device, max_rows) + 1);
  }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;

 private:
  int64_t slope_;
};

// y = x (p + alpha (1 - p)), p = sigmoid(normalized): the second half of Dice. Adds the parameter
// NAME.alpha [1, cols].
class DiceGate : public DeviceOp<DiceGate> {
 public:
  DiceGate(Tensor* x, Tensor* normalized, Tensor* out, const std::string& name,
           ParameterSet& parameters)
      : DeviceOp({x, normalized}, out),
        alpha_(parameters.add(name + ".alpha", 1, x->cols, Initial::zeros())) {}
  const char* kind() const override { return "dice"; }
  bool has_parameters() const override { return true; }
  double flops_per_row() const override { return 8.0 * static_cast<double>(out().cols); }
  int64_t workspace_floats(Device device, int64_t max_rows) const override {
    return out().cols * most_row_groups(device, max_rows);
  }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;

 private:
  int64_t alpha_;
};

}  // namespace emblem
