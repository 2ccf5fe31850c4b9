// nn/ops/norm.h - batch and layer normalization, scaled, shifted and activated.
#pragma once

#include <string>

#include "core/buffer.h"
#include "nn/ops/op.h"

namespace emblem {

// Adds the parameters NAME.weight and NAME.bias [1, cols] and the statistics NAME.running_mean and
// NAME.running_var. In training a batch is normalized by its own mean and variance, and a tenth of
// them goes into the statistics; in evaluation, and for a training batch of a single row, which has
// no variance, the statistics are used and stay. The activation must be invertible_from_output.
class BatchNorm : public DeviceOp<BatchNorm> {
 public:
  static constexpr float kEpsilon = 1e-5f;
  static constexpr float kMomentum = 0.1f;

  BatchNorm(Tensor* x, Tensor* out, Activation activation, const std::string& name,
            ParameterSet& parameters, ParameterSet& statistics)
      : DeviceOp({x}, out), activation_(activation), cols_(x->cols) {
    scale_ = parameters.add(name + ".weight", 1, cols_, Initial::kOnes);
    shift_ = parameters.add(name + ".bias", 1, cols_, Initial::kZeros);
    running_mean_ = statistics.add(name + ".running_mean", 1, cols_, Initial::kZeros);
    running_variance_ = statistics.add(name + ".running_var", 1, cols_, Initial::kOnes);
  }

  const char* kind() const override { return "batch_norm"; }
  bool has_parameters() const override { return true; }
  double flops_per_row() const override { return 8.0 * static_cast<double>(cols_); }
  void prepare(Device device, int64_t) override { moments_ = Buffer<float>(device, 2, cols_); }
  int64_t workspace_floats(Device device, int64_t max_rows) const override {
    return 2 * cols_ * (most_row_groups(device, max_rows) + 1);
  }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);

 private:
  void use_statistics(const OpContext& pass);
  void measure(const OpContext& pass);
  template <class F>
  void sum_gradients(int64_t begin, int64_t end, float* part, F f);
  void backward_to_input(const OpContext& pass, const float* sums);

  Activation activation_;
  int64_t cols_;
  int64_t scale_ = 0, shift_ = 0, running_mean_ = 0, running_variance_ = 0;
  Buffer<float> moments_;    // mean, 1 / standard deviation
  bool from_batch_ = false;  // in the last forward
};

// Adds the parameters NAME.weight and NAME.bias [1, cols].
class LayerNorm : public DeviceOp<LayerNorm> {
 public:
  static constexpr float kEpsilon = 1e-5f;

  LayerNorm(Tensor* x, Tensor* out, Activation activation, const std::string& name,
            ParameterSet& parameters)
      : DeviceOp({x}, out), activation_(activation), cols_(x->cols) {
    scale_ = parameters.add(name + ".weight", 1, cols_, Initial::kOnes);
    shift_ = parameters.add(name + ".bias", 1, cols_, Initial::kZeros);
  }

  const char* kind() const override { return "layer_norm"; }
  bool has_parameters() const override { return true; }
  double flops_per_row() const override { return 8.0 * static_cast<double>(cols_); }
  void prepare(Device device, int64_t max_rows) override {
    moments_ = Buffer<float>(device, max_rows, 2);
  }
  int64_t workspace_floats(Device device, int64_t max_rows) const override {
    return 2 * cols_ * (most_row_groups(device, max_rows) + 1);
  }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);

 private:
  template <class F>
  void backward_row(const OpContext& pass, int64_t r, float* part, F f);

  Activation activation_;
  int64_t cols_;
  int64_t scale_ = 0, shift_ = 0;
  Buffer<float> moments_;  // of each row: mean, 1 / standard deviation
};

}  // namespace emblem
