// nn/ops/loss/loss.h - what training minimizes.
#pragma once

#include "core/memory/buffer.h"
#include "loss/losses.h"
#include "nn/ops/op.h"

namespace emblem {

// The label and the weight of each row, as kernels read them. A row whose label is NaN is masked:
// it has the weight 0, and a label that every loss is finite for.
struct RowTargets {
  const float *labels = nullptr, *weights = nullptr;  // weights may be null: all 1
  int64_t label_cols = 1, label = 0, weight_cols = 1, weight = 0;
  int64_t indicator = -1;
  float in_space = 1.0f, out_space = 1.0f;

  EMBLEM_HD bool is_masked(int64_t r) const {
    if (labels == nullptr) return false;
    const float value = labels[r * label_cols + label];
    return value != value;
  }
  EMBLEM_HD float label_of(int64_t r) const {
    return is_masked(r) ? 0.0f : labels[r * label_cols + label];
  }
  EMBLEM_HD float weight_of(int64_t r) const {
    if (is_masked(r)) return 0.0f;
    const float of_row = weights == nullptr ? 1.0f : weights[r * weight_cols + weight];
    if (indicator < 0) return of_row;
    return of_row * (labels[r * label_cols + indicator] > 0.0f ? in_space : out_space);
  }
};

// An op without output whose gradient starts the backward pass. Its value, which it writes to
// losses[slot], is factor * sum(w l) / sum(w) over the rows, 0 where the weights sum to 0 or where
// the loss is for training only and this is an evaluation.
class Loss : public Op {
 public:
  // `inputs` are followed by the labels and the weights of the target, where there are any.
  Loss(std::vector<Tensor*> inputs, Tensor* labels, Tensor* weights, Graph::Target target,
       int64_t slot)
      : Op(with_targets(std::move(inputs), labels, weights), nullptr),
        labels_(labels),
        weights_(weights),
        target_(std::move(target)),
        slot_(slot) {}

  bool reads_fp32(size_t input) const override {
    return inputs()[input] == labels_ || inputs()[input] == weights_;
  }
  bool sends_gradient(size_t input) const override { return input == 0; }
  bool is_for_training_only() const override { return target_.training_only; }
  void prepare(Device device, int64_t) override { total_weight_ = Buffer<double>(device, 1); }
  int64_t workspace_floats(Device device, int64_t max_rows) const override {
    return most_row_groups(device, max_rows) * 4;  // two doubles for each group
  }

 protected:
  const Graph::Target& target() const { return target_; }
  double* value(const OpContext& pass) const { return pass.losses + slot_; }
  bool is_off(const OpContext& pass) const {
    return is_for_training_only() && pass.phase != Phase::kTrain;
  }
  RowTargets row_targets() const {
    return {labels_ == nullptr ? nullptr : labels_->value(),
            weights_ == nullptr ? nullptr : weights_->value(),
            labels_ == nullptr ? 1 : labels_->cols,
            target_.label,
            weights_ == nullptr ? 1 : weights_->cols,
            target_.weight,
            target_.indicator,
            target_.in_space,
            target_.out_space};
  }
  Buffer<double>& total_weight() { return total_weight_; }

 private:
  static std::vector<Tensor*> with_targets(std::vector<Tensor*> inputs, Tensor* labels,
                                           Tensor* weights) {
    if (labels != nullptr) inputs.push_back(labels);
    if (weights != nullptr) inputs.push_back(weights);
    return inputs;
  }

  Tensor *labels_, *weights_;
  Graph::Target target_;
  int64_t slot_;
  Buffer<double> total_weight_;  // total weight of the last forward
};

// What the loss and the gradient of a row are multiplied by.
EMBLEM_HD inline float share_of(double total_weight, float factor) {
  return total_weight == 0.0 ? 0.0f : static_cast<float>(factor / total_weight);
}

// A loss in which each row counts for itself.
class RowLoss : public DeviceOp<RowLoss, Loss> {
 public:
  RowLoss(const AnyLoss& loss, Tensor* logits, Tensor* labels, Tensor* weights,
          Graph::Target target, int64_t slot)
      : DeviceOp({logits}, labels, weights, std::move(target), slot), loss_(loss) {}
  const char* kind() const override { return name_of(loss_); }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);

 private:
  // Calls body(formula), whose type gives kernels of their own.
  template <class Body>
  void with_formula(Body&& body) const {
    std::visit(
        [&](const auto& formula) {
          if constexpr (is_of_rows<std::decay_t<decltype(formula)>>) body(formula);
        },
        loss_);
  }

  AnyLoss loss_;
};

}  // namespace emblem
