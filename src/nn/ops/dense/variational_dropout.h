// nn/ops/dense/variational_dropout.h - learns which features can be dropped.
#pragma once

#include <string>

#include "core/math/random.h"
#include "core/memory/buffer.h"
#include "nn/ops/dense/activation.h"
#include "nn/ops/op.h"

namespace emblem {

// Each feature, a range of columns, has a trained probability p = sigmoid(theta) of being dropped.
// In training its columns are multiplied by 1 - b, b = sigmoid((logit(p) + logit(u)) / 0.1) for a
// uniform u of each row and feature; in evaluation by 1 - p. The loss lambda / rows * sum(1 - p),
// which is written to losses[slot], pushes p to 1. Adds the parameter NAME.logit_p [1, features].
class VariationalDropout : public DeviceOp<VariationalDropout> {
 public:
  static constexpr float kTemperature = 0.1f, kEpsilon = 1.1920929e-7f;

  // `begins`: the first column of each feature; `stream` sets its draws apart from other ops'.
  VariationalDropout(Tensor* x, std::vector<int64_t> begins, float lambda, uint64_t stream,
                     int64_t slot, Tensor* out, const std::string& name, ParameterSet& parameters)
      : DeviceOp({x}, out),
        begins_(std::move(begins)),
        features_(static_cast<int64_t>(begins_.size())),
        lambda_(lambda),
        stream_(stream),
        slot_(slot) {
    theta_ = parameters.add(name + ".logit_p", 1, features_, Initial::normal(1.0f));
    begins_.push_back(x->cols);
  }
  const char* kind() const override { return "variational_dropout"; }
  bool has_parameters() const override { return true; }
  double flops_per_row() const override { return static_cast<double>(out().cols); }
  void prepare(Device device, int64_t max_rows) override;
  int64_t workspace_floats(Device device, int64_t max_rows) const override {
    return features_ * (most_row_groups(device, max_rows) + 1);
  }

  // b of a row and feature.
  EMBLEM_HD static float draw(uint64_t seed, uint64_t stream, int64_t place, float theta) {
    const float p = sigmoid_inline(theta), u = random_uniform(seed, stream, place);
    const float logits = logf(p + kEpsilon) - logf(1.0f - p + kEpsilon) + logf(u + kEpsilon) -
                         logf(1.0f - u + kEpsilon);
    return sigmoid_inline(logits / kTemperature);
  }
  // The derivative of logit(p), as it is computed here, by theta.
  EMBLEM_HD static float logit_slope(float theta) {
    const float p = sigmoid_inline(theta), rest = 1.0f - p;
    return p * rest * (1.0f / (p + kEpsilon) + 1.0f / (rest + kEpsilon));
  }
  // What is added to the gradient of theta for the loss.
  EMBLEM_HD static float penalty_slope(float theta, float lambda, int64_t rows) {
    const float p = sigmoid_inline(theta);
    return rows == 0 ? 0.0f : -lambda / static_cast<float>(rows) * p * (1.0f - p);
  }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;

 private:
  std::vector<int64_t> begins_;  // and the end of the last
  int64_t features_;
  float lambda_;
  uint64_t stream_;
  int64_t slot_, theta_;
  Buffer<int32_t> feature_of_;     // each column
  Buffer<int32_t> device_begins_;  // begins_
  Buffer<float> dropped_;          // b, or p in evaluation, of each row and feature
};

}  // namespace emblem
