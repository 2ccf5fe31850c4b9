// nn/ops/vectors/vectors.h - ops on rows that are lists of vectors [n, dim]: products with trained
// matrices over the list, and with each other.
#pragma once

#include <string>

#include "nn/ops/op.h"

namespace emblem {

// out = W^T x over the vectors of each row; adds the parameter NAME.weight [n, vectors of out].
class MixVectors : public DeviceOp<MixVectors> {
 public:
  MixVectors(Tensor* x, int64_t dim, Tensor* out, const std::string& name, ParameterSet& parameters)
      : DeviceOp({x}, out), dim_(dim), n_(x->cols / dim), m_(out->cols / dim) {
    weight_ = parameters.add_weight(name + ".weight", n_, m_, Initial::kaiming_uniform(m_));
  }
  const char* kind() const override { return "mix_vectors"; }
  bool has_parameters() const override { return true; }
  double flops_per_row() const override { return 2.0 * static_cast<double>(n_ * m_ * dim_); }
  int64_t workspace_floats(Device device, int64_t max_rows) const override {
    return n_ * m_ * most_row_groups(device, max_rows);
  }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;

 private:
  int64_t dim_, n_, m_, weight_;
};

// out [n, k] = x y^T: the products of each vector of x [n, dim] with each of y [k, dim].
class VectorProducts : public DeviceOp<VectorProducts> {
 public:
  VectorProducts(Tensor* x, Tensor* y, int64_t dim, Tensor* out)
      : DeviceOp({x, y}, out), dim_(dim), n_(x->cols / dim), k_(y->cols / dim) {}
  const char* kind() const override { return "vector_products"; }
  double flops_per_row() const override { return 2.0 * static_cast<double>(n_ * k_ * dim_); }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;

 private:
  int64_t dim_, n_, k_;
};

// Floats of the weights of a CIN layer, laid out as tiles of 32 units and 32 vectors for tensor
// cores.
inline int64_t cin_tile_floats(int64_t n, int64_t m, int64_t units) {
  constexpr int64_t kTile = 32;
  return (units + kTile - 1) / kTile * ((m + kTile - 1) / kTile) * n * (kTile * kTile / 2);
}

// out_u = b_u + sum over i, j of W[u, i m + j] x_i * x0_j, elementwise over the dimension, of x
// [n, dim] and x0 [m, dim]. Adds the parameters NAME.weight [units, n m] and NAME.bias [1, units].
class CinLayer : public DeviceOp<CinLayer> {
 public:
  CinLayer(Tensor* x, Tensor* x0, int64_t dim, Tensor* out, const std::string& name,
           ParameterSet& parameters)
      : DeviceOp({x, x0}, out),
        dim_(dim),
        n_(x->cols / dim),
        m_(x0->cols / dim),
        units_(out->cols / dim) {
    const Initial initial = Initial::linear(n_ * m_);
    weight_ = parameters.add_weight(name + ".weight", units_, n_ * m_, initial);
    bias_ = parameters.add(name + ".bias", 1, units_, initial);
  }
  const char* kind() const override { return "cin"; }
  bool has_parameters() const override { return true; }
  double flops_per_row() const override {
    return 3.0 * static_cast<double>(units_ * n_ * m_ * dim_);
  }
  int64_t workspace_floats(Device device, int64_t max_rows) const override {
    return std::max((units_ * n_ * m_ + units_) * most_row_groups(device, max_rows),
                    cin_tile_floats(n_, m_, units_));
  }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;

 private:
  void products(int64_t row, float* to) const;

  int64_t dim_, n_, m_, units_, weight_, bias_;
};

}  // namespace emblem
