// nn/ops/dense/elementwise.h - ops that treat every element, or every row, alike.
#pragma once

#include "nn/ops/dense/activation.h"
#include "nn/ops/op.h"

namespace emblem {

class ActivationOp : public DeviceOp<ActivationOp> {
 public:
  ActivationOp(Tensor* x, Activation activation, Tensor* out)
      : DeviceOp({x}, out), activation_(activation) {}
  const char* kind() const override { return name_of(activation_); }
  bool reads_padded_rows() const override { return keeps_zeros(); }
  bool writes_padded_rows() const override { return keeps_zeros(); }
  bool pads_all_alike() const override { return true; }
  double flops_per_row() const override { return static_cast<double>(out().cols); }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;

 private:
  bool keeps_zeros() const;

  Activation activation_;
};

class Sum : public DeviceOp<Sum> {
 public:
  using DeviceOp::DeviceOp;
  const char* kind() const override { return "sum"; }
  bool reads_padded_rows() const override { return true; }
  bool writes_padded_rows() const override { return true; }
  bool pads_all_alike() const override { return true; }
  double flops_per_row() const override {
    return static_cast<double>(out().cols * inputs().size());
  }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;
};

class Multiply : public DeviceOp<Multiply> {
 public:
  Multiply(Tensor* a, Tensor* b, Tensor* out) : DeviceOp({a, b}, out) {}
  const char* kind() const override { return "multiply"; }
  bool reads_padded_rows() const override { return true; }
  bool writes_padded_rows() const override { return true; }
  bool pads_all_alike() const override { return true; }
  double flops_per_row() const override { return static_cast<double>(out().cols); }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;
};

class Scale : public DeviceOp<Scale> {
 public:
  Scale(Tensor* x, float factor, Tensor* out) : DeviceOp({x}, out), factor_(factor) {}
  const char* kind() const override { return "scale"; }
  bool reads_padded_rows() const override { return true; }
  bool writes_padded_rows() const override { return true; }
  bool pads_all_alike() const override { return true; }
  double flops_per_row() const override { return static_cast<double>(out().cols); }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;

 private:
  float factor_;
};

// out = x * factor * sigmoid(z)
class ScaleBySigmoid : public DeviceOp<ScaleBySigmoid> {
 public:
  ScaleBySigmoid(Tensor* x, Tensor* z, float factor, Tensor* out)
      : DeviceOp({x, z}, out), factor_(factor) {}
  const char* kind() const override { return "scale_by_sigmoid"; }
  bool reads_padded_rows() const override { return true; }
  bool writes_padded_rows() const override { return true; }
  bool pads_all_alike() const override { return true; }
  double flops_per_row() const override { return 3.0 * static_cast<double>(out().cols); }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;

 private:
  float factor_;
};

// out is [rows, 1], or has the sum of each vector of as many columns.
class RowSum : public DeviceOp<RowSum> {
 public:
  RowSum(Tensor* x, Tensor* out) : DeviceOp({x}, out) {}
  const char* kind() const override { return "row_sum"; }
  bool reads_padded_rows() const override { return out().cols == 1; }
  double flops_per_row() const override { return static_cast<double>(in(0).cols); }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;
};

}  // namespace emblem
