// nn/ops/elementwise.h - ops that treat every element, or every row, alike.
#pragma once

#include "nn/ops/activation.h"
#include "nn/ops/op.h"

namespace emblem {

class ActivationOp : public DeviceOp<ActivationOp> {
 public:
  ActivationOp(Tensor* x, Activation activation, Tensor* out)
      : DeviceOp({x}, out), activation_(activation) {}
  const char* kind() const override { return name_of(activation_); }
  double flops_per_row() const override { return static_cast<double>(out().cols); }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);

 private:
  Activation activation_;
};

class Sum : public DeviceOp<Sum> {
 public:
  using DeviceOp::DeviceOp;
  const char* kind() const override { return "sum"; }
  double flops_per_row() const override {
    return static_cast<double>(out().cols * inputs().size());
  }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
};

class Multiply : public DeviceOp<Multiply> {
 public:
  Multiply(Tensor* a, Tensor* b, Tensor* out) : DeviceOp({a, b}, out) {}
  const char* kind() const override { return "multiply"; }
  double flops_per_row() const override { return static_cast<double>(out().cols); }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
};

class Scale : public DeviceOp<Scale> {
 public:
  Scale(Tensor* x, float factor, Tensor* out) : DeviceOp({x}, out), factor_(factor) {}
  const char* kind() const override { return "scale"; }
  double flops_per_row() const override { return static_cast<double>(out().cols); }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);

 private:
  float factor_;
};

// out is [rows, 1].
class RowSum : public DeviceOp<RowSum> {
 public:
  RowSum(Tensor* x, Tensor* out) : DeviceOp({x}, out) {}
  const char* kind() const override { return "row_sum"; }
  double flops_per_row() const override { return static_cast<double>(in(0).cols); }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
};

}  // namespace emblem
