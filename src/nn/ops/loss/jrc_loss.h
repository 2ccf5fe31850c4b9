// nn/ops/loss/jrc_loss.h - a calibrated loss that also ranks within sessions, as an op.
#pragma once

#include "nn/ops/loss/loss.h"
#include "nn/ops/loss/session_order.h"

namespace emblem {

// losses::JrcLoss. Inputs: logits, sessions (an id input), labels, weights.
class JrcLoss : public DeviceOp<JrcLoss, Loss> {
 public:
  JrcLoss(Tensor* logits, Tensor* sessions, Tensor* labels, Tensor* weights, Graph::Target target,
          float alpha, int64_t slot)
      : DeviceOp({logits, sessions}, labels, weights, std::move(target), slot), alpha_(alpha) {}
  const char* kind() const override { return "jrc_loss"; }
  void prepare(Device device, int64_t max_rows) override;

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);

 private:
  float alpha_;
  Buffer<int32_t> order_;       // on a CPU: rows in the order of their sessions
  SessionOrder session_order_;  // on a GPU
  Buffer<float> others_;        // of each row
};

// What a row needs of its own logits and of `others`.
struct JrcRow {
  float alpha, logits[2], label, others;

  EMBLEM_HD bool is_positive() const { return label == 1.0f; }
  EMBLEM_HD float own() const { return logits[is_positive() ? 1 : 0]; }
  EMBLEM_HD bool is_known() const { return label == 0.0f || label == 1.0f; }
  EMBLEM_HD double loss() const {
    if (!is_known()) return NAN;
    // -log softmax of two columns is the cross entropy of their difference.
    const double calibration = losses::cross_entropy(logits[1] - logits[0], label);
    const double ranking = losses::cross_entropy(others - own(), 0.0f);  // softplus
    return alpha * calibration + (1.0 - alpha) * (others == -INFINITY ? 0.0 : ranking);
  }
  // The derivative of the second part with respect to `others`; that of own() is its negative.
  EMBLEM_HD float pull() const {
    return others == -INFINITY ? 0.0f : (1.0f - alpha) * sigmoid_inline(others - own());
  }
  // Derivatives of this row's loss with respect to its own logits.
  EMBLEM_HD float slope(int column) const {
    if (!is_known()) return NAN;
    const float calibration = losses::cross_entropy_slope(logits[1] - logits[0], label);
    return alpha * (column == 1 ? calibration : -calibration) -
           (column == (is_positive() ? 1 : 0) ? pull() : 0.0f);
  }
};

}  // namespace emblem
