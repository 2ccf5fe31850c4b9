// nn/ops/dense/concat.h - putting columns together and taking them apart.
#pragma once

#include "nn/ops/op.h"

namespace emblem {

class Concat : public DeviceOp<Concat> {
 public:
  using DeviceOp::DeviceOp;
  const char* kind() const override { return "concat"; }
  bool reads_padded_rows() const override { return true; }
  bool writes_padded_rows() const override { return true; }
  int64_t gradient_cols() const override {
    int64_t cols = 0;
    for_each_part([&](size_t part, int64_t column) {
      if (write(part) != Write::kNone) cols = column + in(part).cols;
    });
    return cols;
  }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;

 private:
  // Calls body(part, first column in the output).
  template <class Body>
  void for_each_part(Body&& body) const {
    int64_t column = 0;
    for (size_t part = 0; part < inputs().size(); ++part) {
      body(part, column);
      column += in(part).cols;
    }
  }
};

// Columns [first, first + out cols).
class Slice : public DeviceOp<Slice> {
 public:
  Slice(Tensor* x, int64_t first, Tensor* out) : DeviceOp({x}, out), first_(first) {}
  const char* kind() const override { return "slice"; }
  bool reads_padded_rows() const override { return true; }
  bool writes_padded_rows() const override { return true; }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;

 private:
  int64_t first_;
};

}  // namespace emblem
