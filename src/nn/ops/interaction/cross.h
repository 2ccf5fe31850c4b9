// nn/ops/interaction/cross.h - the layers of deep & cross networks.
#pragma once

#include <string>

#include "core/memory/buffer.h"
#include "nn/ops/op.h"

namespace emblem {

// out = x0 (x . w) + b + x, with the parameters NAME.weight and NAME.bias [1, cols].
class CrossLayer : public DeviceOp<CrossLayer> {
 public:
  CrossLayer(Tensor* x0, Tensor* x, Tensor* out, const std::string& name, ParameterSet& parameters)
      : DeviceOp({x0, x}, out), cols_(x->cols) {
    weight_ = parameters.add_weight(name + ".weight", 1, cols_, Initial::xavier_uniform(cols_, 1));
    bias_ = parameters.add(name + ".bias", 1, cols_, Initial::zeros());
  }
  const char* kind() const override { return "cross"; }
  bool has_parameters() const override { return true; }
  bool reads_padded_rows() const override { return true; }
  bool writes_padded_rows() const override { return true; }
  bool pads_all_alike() const override { return true; }
  double flops_per_row() const override { return 5.0 * static_cast<double>(cols_); }
  void prepare(Device device, int64_t max_rows) override {
    products_ = Buffer<float>(device, max_rows);
    if (device == Device::kCuda) product_gradients_ = Buffer<float>(device, max_rows);
  }
  int64_t workspace_floats(Device device, int64_t max_rows) const override {
    return 2 * out().stride * (most_row_groups(device, max_rows) + 1);
  }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;

 private:
  void backward_row(const OpContext& pass, int64_t r, float* part);

  int64_t cols_;
  int64_t weight_ = 0, bias_ = 0;
  Buffer<float> products_;           // x . w of each row
  Buffer<float> product_gradients_;  // on a GPU, where rows and columns are summed in two kernels
};

// out = x0 * z + x, elementwise: what the second version does with z = W x + b.
class CrossCombine : public DeviceOp<CrossCombine> {
 public:
  CrossCombine(Tensor* x0, Tensor* z, Tensor* x, Tensor* out) : DeviceOp({x0, z, x}, out) {}
  const char* kind() const override { return "cross_combine"; }
  bool reads_padded_rows() const override { return true; }
  bool writes_padded_rows() const override { return true; }
  bool pads_all_alike() const override { return true; }
  double flops_per_row() const override { return 2.0 * static_cast<double>(out().cols); }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;
};

}  // namespace emblem
