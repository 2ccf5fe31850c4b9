// nn/ops/attention/capsules.h - dynamic routing of the elements of a row to capsules, without
// padding (nn/capsules.h).
#pragma once

#include <cmath>

#include "core/memory/buffer.h"
#include "nn/capsules.h"
#include "nn/ops/op.h"

namespace emblem {

// squash(v) = factor v, and its gradient factor dy + along (v . dy) v, by the square of v's length.
struct Squash {
  float power;

  EMBLEM_HD float factor(float square) const {
    const float length = fmaxf(sqrtf(square), 1e-7f), least = length * length;
    return powf(least / (1.0f + least), power) / length;
  }
  EMBLEM_HD float along(float square) const {
    if (square <= 1e-14f) return 0.0f;
    return factor(square) / square * (2.0f * power / (1.0f + square) - 1.0f);
  }
};

// x [elements, n], out [rows, capsules * n].
class Capsules : public DeviceOp<Capsules> {
 public:
  Capsules(Tensor* x, const CapsuleOptions& options, Tensor* out)
      : DeviceOp({x}, out), options_(options) {}
  const char* kind() const override { return "capsules"; }
  bool connects_spaces() const override { return true; }
  double flops_per_row() const override {
    return (4.0 * options_.iterations - 2.0) * static_cast<double>(out().cols);
  }
  int64_t kept_values_per_row() const override { return options_.capsules; }
  void prepare(Device device, int64_t max_rows) override {
    shares_ = Buffer<float>(device, max_rows, options_.capsules);
    sums_ = Buffer<float>(device, max_batch_rows(), out().cols);
  }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;

 private:
  void route_row(const OpContext& pass, int64_t r);
  void row_gradients(const OpContext& pass, int64_t r);

  CapsuleOptions options_;
  // Shares of elements in capsules in the last forward, and the sums v, which backward overwrites
  // by their gradients.
  Buffer<float> shares_, sums_;
};

// Reads only how many elements of x [elements, n] a row has. Out [rows, capsules].
class CapsuleMask : public DeviceOp<CapsuleMask> {
 public:
  CapsuleMask(Tensor* x, const CapsuleOptions& options, float there, float missing, Tensor* out)
      : DeviceOp({x}, out), options_(options), there_(there), missing_(missing) {}
  const char* kind() const override { return "capsule_mask"; }
  bool connects_spaces() const override { return true; }
  bool sends_gradient(size_t) const override { return false; }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext&) {}
  void backward_cuda(const OpContext&) {}
  bool write_onnx(OnnxLayers& to) const override;

 private:
  CapsuleOptions options_;
  float there_, missing_;
};

}  // namespace emblem
