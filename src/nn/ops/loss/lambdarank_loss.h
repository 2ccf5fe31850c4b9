// nn/ops/loss/lambdarank_loss.h - a loss that orders the rows of a session, as an op.
#pragma once

#include "nn/ops/loss/loss.h"
#include "nn/ops/loss/session_order.h"

namespace emblem {

// losses::LambdaRankLoss. Inputs: scores [rows, 1], sessions (an id input), labels, weights. A
// session of n rows takes n * n steps.
class LambdaRankLoss : public DeviceOp<LambdaRankLoss, Loss> {
 public:
  LambdaRankLoss(Tensor* scores, Tensor* sessions, Tensor* labels, Tensor* weights,
                 Graph::Target target, int64_t slot)
      : DeviceOp({scores, sessions}, labels, weights, std::move(target), slot) {}
  const char* kind() const override { return losses::LambdaRankLoss::kName; }
  void prepare(Device device, int64_t max_rows) override;

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);

 private:
  void prepare_cpu(int64_t max_rows);
  void prepare_cuda(int64_t max_rows);

  // On a CPU: labels, weights and slopes without those of other columns, and the loss of each row.
  Buffer<float> labels_, weights_, slopes_;
  Buffer<double> losses_;
  // On a GPU, of each row: its discount, its gain at its best rank, its loss, and 1 / the best gain
  // of its session.
  SessionOrder session_order_;
  Buffer<float> discounts_, gains_, row_losses_, scales_;
};

}  // namespace emblem
