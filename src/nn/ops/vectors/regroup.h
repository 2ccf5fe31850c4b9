// nn/ops/vectors/regroup.h - rows of the batch as elements of sequences, and elements as rows.
#pragma once

#include "nn/ops/op.h"

namespace emblem {

// The same numbers: x or out is [rows, count * n], the other [rows * count, n] of a sequence of
// which each row has `count` elements.
class RegroupVectors : public DeviceOp<RegroupVectors> {
 public:
  RegroupVectors(Tensor* x, Tensor* out) : DeviceOp({x}, out) {}
  const char* kind() const override { return "regroup_vectors"; }
  bool connects_spaces() const override { return true; }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;

 private:
  // Numbers of a batch, without padding.
  int64_t size(const OpContext& pass) const {
    return pass.batch_rows * std::max(in(0).cols, out().cols);
  }
};

// out [rows, n] = the first of the elements of each row, x [elements, n].
class FirstElements : public DeviceOp<FirstElements> {
 public:
  FirstElements(Tensor* x, Tensor* out) : DeviceOp({x}, out) {}
  const char* kind() const override { return "first_elements"; }
  bool connects_spaces() const override { return true; }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
};

}  // namespace emblem
