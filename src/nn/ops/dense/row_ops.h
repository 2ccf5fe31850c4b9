// nn/ops/dense/row_ops.h - ops that treat every row on its own, without parameters.
#pragma once

#include "core/memory/buffer.h"
#include "nn/ops/op.h"

namespace emblem {

class Softmax : public DeviceOp<Softmax> {
 public:
  Softmax(Tensor* x, Tensor* out) : DeviceOp({x}, out) {}
  const char* kind() const override { return "softmax"; }
  bool reads_padded_rows() const override { return true; }
  bool writes_padded_rows() const override { return true; }
  bool pads_all_alike() const override { return true; }
  double flops_per_row() const override { return 8.0 * static_cast<double>(out().cols); }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;
};

// x / max(|x|, 1e-12)
class Normalize : public DeviceOp<Normalize> {
 public:
  static constexpr float kLeast = 1e-12f;

  Normalize(Tensor* x, Tensor* out) : DeviceOp({x}, out) {}
  const char* kind() const override { return "normalize"; }
  double flops_per_row() const override { return 3.0 * static_cast<double>(out().cols); }
  void prepare(Device device, int64_t max_rows) override {
    factors_ = Buffer<float>(device, max_rows);
  }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;

 private:
  Buffer<float> factors_;  // factor of each row: 1 / max(|x|, 1e-12)
};

// x, through which no gradient flows.
class StopGradient : public DeviceOp<StopGradient> {
 public:
  StopGradient(Tensor* x, Tensor* out) : DeviceOp({x}, out) {}
  const char* kind() const override { return "stop_gradient"; }
  bool sends_gradient(size_t) const override { return false; }
  bool reads_padded_rows() const override { return true; }
  bool writes_padded_rows() const override { return true; }
  bool pads_all_alike() const override { return true; }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext&) {}
  void backward_cuda(const OpContext&) {}
  bool write_onnx(OnnxLayers& to) const override;
};

// The one of the parts, equally wide, that a column of the labels numbers; not a number where it
// numbers none. The labels are the last input.
class Select : public DeviceOp<Select> {
 public:
  Select(std::vector<Tensor*> parts_and_labels, int64_t column, Tensor* out)
      : DeviceOp(std::move(parts_and_labels), out), column_(column) {}
  const char* kind() const override { return "select"; }
  bool reads_fp32(size_t input) const override { return input == parts(); }
  bool sends_gradient(size_t input) const override { return input < parts(); }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);

 private:
  size_t parts() const { return inputs().size() - 1; }

  int64_t column_;
};

}  // namespace emblem
