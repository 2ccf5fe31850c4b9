// nn/ops/dense/bias.h - x + a trained row.
#pragma once

#include <string>

#include "nn/ops/op.h"

namespace emblem {

// Adds the parameter NAME.bias [1, cols].
class BiasOp : public DeviceOp<BiasOp> {
 public:
  BiasOp(Tensor* x, Tensor* out, const std::string& name, ParameterSet& parameters)
      : DeviceOp({x}, out), bias_(parameters.add(name + ".bias", 1, x->cols, Initial::zeros())) {}

  const char* kind() const override { return "bias"; }
  bool has_parameters() const override { return true; }
  int64_t workspace_floats(Device device, int64_t max_rows) const override {
    return most_row_groups(device, max_rows) * out().cols;
  }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;

 private:
  int64_t bias_;
};

}  // namespace emblem
