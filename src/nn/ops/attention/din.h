// nn/ops/attention/din.h - the elements of a sequence compared with a vector of their row, as
// attention to a candidate does.
#pragma once

#include "nn/ops/op.h"

namespace emblem {

// q [rows, n], s [elements, m], n <= m; out [elements, 4 m] = [q, s, q - s, q * s] with the q of
// the element's row, extended by zeros.
class DinFeatures : public DeviceOp<DinFeatures> {
 public:
  DinFeatures(Tensor* q, Tensor* s, Tensor* out) : DeviceOp({q, s}, out) {}
  const char* kind() const override { return "din_features"; }
  bool connects_spaces() const override { return true; }
  double flops_per_row() const override { return 2.0 * static_cast<double>(in(1).cols); }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;

 private:
  void backward_row(const OpContext& pass, int64_t r);
};

// q [rows, cols], s [elements, cols]; out [elements, 1]: the dot product of s and the q of its row.
class DotWithRow : public DeviceOp<DotWithRow> {
 public:
  DotWithRow(Tensor* q, Tensor* s, Tensor* out) : DeviceOp({q, s}, out) {}
  const char* kind() const override { return "dot_with_row"; }
  bool connects_spaces() const override { return true; }
  double flops_per_row() const override { return 2.0 * static_cast<double>(in(1).cols); }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;
};

}  // namespace emblem
