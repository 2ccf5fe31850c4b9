// nn/ops/loss.h - what training minimizes.
#pragma once

#include "core/buffer.h"
#include "nn/ops/op.h"

namespace emblem {

// A loss is an op without output whose gradient starts the backward pass. Its inputs: logits,
// labels and, optionally, weights.
class BinaryCrossEntropy : public DeviceOp<BinaryCrossEntropy> {
 public:
  // weights may be null: all 1.
  BinaryCrossEntropy(Tensor* logits, Tensor* labels, Tensor* weights, float label_smoothing)
      : DeviceOp(
            weights == nullptr ? std::vector{logits, labels} : std::vector{logits, labels, weights},
            nullptr),
        smoothing_(label_smoothing) {}
  const char* kind() const override { return "binary_cross_entropy"; }
  void prepare(Device device, int64_t) override { total_weight_ = Buffer<double>(device, 1); }
  int64_t workspace_floats(Device device, int64_t max_rows) const override {
    return most_row_groups(device, max_rows) * 4;  // two doubles for each group
  }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);

 private:
  const float* weights() const { return inputs().size() > 2 ? in(2).value() : nullptr; }

  float smoothing_;
  Buffer<double> total_weight_;  // of the last forward
};

}  // namespace emblem
