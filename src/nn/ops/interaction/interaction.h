// nn/ops/interaction/interaction.h - products of the vectors of a row.
#pragma once

#include "nn/ops/op.h"

namespace emblem {

// The vectors of a row are `first` (unless null) and those of x, `dim` floats each; out is the
// first vector, then the dot products of all pairs: (1,0) (2,0) (2,1) (3,0) ...
class Interaction : public DeviceOp<Interaction> {
 public:
  Interaction(Tensor* first, Tensor* x, int64_t dim, Tensor* out)
      : DeviceOp(first == nullptr ? std::vector{x} : std::vector{first, x}, out),
        dim_(dim),
        has_first_(first == nullptr ? 0 : 1),
        vectors_(has_first_ + x->cols / dim) {}
  int64_t dim() const { return dim_; }
  bool has_first() const { return has_first_ != 0; }
  int64_t vectors() const { return vectors_; }

  const char* kind() const override { return "interaction"; }
  double flops_per_row() const override {
    return static_cast<double>(vectors_ * (vectors_ - 1) * dim_);
  }

  bool writes_padded_rows() const override { return true; }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;

 private:
  const Tensor& x() const { return in(has_first_); }
  int64_t rows_each() const { return rows_per_chunk(vectors_ * (dim_ + vectors_)) + 15; }
  void point_at_row(int64_t r, std::vector<const float*>& vectors) const;

  int64_t dim_;
  int64_t has_first_;  // 0 or 1
  int64_t vectors_;
};

// x is [rows, n * dim]; out [rows, dim] = ((sum of vectors)^2 - sum of squares) / 2.
class FactorizationMachine : public DeviceOp<FactorizationMachine> {
 public:
  FactorizationMachine(Tensor* x, int64_t dim, Tensor* out) : DeviceOp({x}, out), dim_(dim) {}
  const char* kind() const override { return "fm"; }
  double flops_per_row() const override { return 3.0 * static_cast<double>(in(0).cols); }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;

 private:
  void add_vectors(int64_t r, std::vector<float>& sum) const;

  int64_t dim_;
};

}  // namespace emblem
