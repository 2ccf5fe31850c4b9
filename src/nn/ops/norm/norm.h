// nn/ops/norm/norm.h - batch and layer normalization, scaled, shifted and activated.
#pragma once

#include <string>

#include "core/memory/buffer.h"
#include "nn/ops/op.h"

namespace emblem {

// Adds the parameters NAME.weight and NAME.bias [1, cols], unless it has none, and the statistics
// NAME.running_mean and NAME.running_var. In training a batch is normalized by its own mean and
// variance, and a tenth of them goes into the statistics; in evaluation, and for a training batch
// of a single row, which has no variance, the statistics are used and stay. The activation is one
// that can_be_fused.
class BatchNorm : public DeviceOp<BatchNorm> {
 public:
  static constexpr float kEpsilon = 1e-5f;
  static constexpr float kMomentum = 0.1f;

  enum class Affine { kNone, kTrained };

  BatchNorm(Tensor* x, Tensor* out, Activation activation, const std::string& name, Affine affine,
            ParameterSet& parameters, ParameterSet& statistics)
      : DeviceOp({x}, out), activation_(activation), cols_(x->cols) {
    if (affine == Affine::kTrained) {
      scale_ = parameters.add(name + ".weight", 1, cols_, Initial::ones());
      shift_ = parameters.add(name + ".bias", 1, cols_, Initial::zeros());
    }
    running_mean_ = statistics.add(name + ".running_mean", 1, cols_, Initial::zeros());
    running_variance_ = statistics.add(name + ".running_var", 1, cols_, Initial::ones());
  }

  const char* kind() const override { return "batch_norm"; }
  bool has_parameters() const override { return is_affine(); }
  double flops_per_row() const override { return 8.0 * static_cast<double>(cols_); }
  void prepare(Device device, int64_t) override { moments_ = Buffer<float>(device, 2, cols_); }
  int64_t workspace_floats(Device device, int64_t max_rows) const override {
    return 2 * cols_ * (most_row_groups(device, max_rows) + 1);
  }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;

 private:
  bool is_affine() const { return scale_ >= 0; }
  // Null where there are none: 1 and 0.
  const float* scale(const OpContext& pass) const {
    return is_affine() ? pass.parameters + scale_ : nullptr;
  }
  const float* shift(const OpContext& pass) const {
    return is_affine() ? pass.parameters + shift_ : nullptr;
  }
  void use_statistics(const OpContext& pass);
  void measure(const OpContext& pass);
  template <class F>
  void sum_gradients(int64_t begin, int64_t end, float* part, F f);
  void backward_to_input(const OpContext& pass, const float* sums);

  Activation activation_;
  int64_t cols_;
  int64_t scale_ = -1, shift_ = -1, running_mean_ = 0, running_variance_ = 0;
  Buffer<float> moments_;    // mean, 1 / standard deviation
  bool from_batch_ = false;  // in the last forward
};

// Normalizes each vector of `dim` columns; a row is one or more of them. Adds the parameters
// NAME.weight and NAME.bias [1, dim].
class LayerNorm : public DeviceOp<LayerNorm> {
 public:
  static constexpr float kEpsilon = 1e-5f;

  LayerNorm(Tensor* x, int64_t dim, Tensor* out, Activation activation, const std::string& name,
            ParameterSet& parameters)
      : DeviceOp({x}, out), activation_(activation), cols_(dim) {
    scale_ = parameters.add(name + ".weight", 1, cols_, Initial::ones());
    shift_ = parameters.add(name + ".bias", 1, cols_, Initial::zeros());
  }

  const char* kind() const override { return "layer_norm"; }
  bool has_parameters() const override { return true; }
  double flops_per_row() const override { return 8.0 * static_cast<double>(out().cols); }
  void prepare(Device device, int64_t max_rows) override {
    moments_ = Buffer<float>(device, max_rows * in_row(), 2);
  }
  int64_t workspace_floats(Device device, int64_t max_rows) const override {
    return 2 * vector_stride() * (most_row_groups(device, max_rows * in_row()) + 1);
  }
  bool reads_padded_rows() const override { return in_row() == 1; }
  bool writes_padded_rows() const override { return in_row() == 1; }
  bool pads_all_alike() const override { return true; }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;

 private:
  int64_t in_row() const { return out().cols / cols_; }  // vectors
  int64_t vector_stride() const { return in_row() == 1 ? out().stride : cols_; }
  int64_t vectors(const OpContext& pass) const { return pass.rows * in_row(); }
  template <class F>
  void backward_row(const OpContext& pass, int64_t r, float* part, F f);

  Activation activation_;
  int64_t cols_;
  int64_t scale_ = 0, shift_ = 0;
  Buffer<float> moments_;  // moments of each vector: mean, 1 / standard deviation
};

}  // namespace emblem
