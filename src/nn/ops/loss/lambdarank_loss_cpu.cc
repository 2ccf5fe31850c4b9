#include "nn/ops/loss/lambdarank_loss.h"
#include "nn/ops/loss/loss_sums.h"

namespace emblem {

void LambdaRankLoss::prepare(Device device, int64_t max_rows) {
  Loss::prepare(device, max_rows);
  dispatch(
      device, [&] { prepare_cpu(max_rows); }, [&] { prepare_cuda(max_rows); });
}

void LambdaRankLoss::prepare_cpu(int64_t max_rows) {
  labels_ = Buffer<float>(Device::kCpu, max_rows);
  weights_ = Buffer<float>(Device::kCpu, max_rows);
  slopes_ = Buffer<float>(Device::kCpu, max_rows);
  losses_ = Buffer<double>(Device::kCpu, max_rows);
}

void LambdaRankLoss::forward_cpu(const OpContext& pass) {
  if (is_off(pass)) return void(*value(pass) = 0.0);
  const RowTargets targets = row_targets();
  const auto rows = static_cast<size_t>(pass.rows);
  for (int64_t r = 0; r < pass.rows; ++r) {
    labels_.data()[r] = targets.label_of(r);
    weights_.data()[r] = targets.weight_of(r);
  }
  losses::LambdaRankLoss().evaluated({in(0).value(), rows}, {labels_.data(), rows},
                                     {in(1).value<int64_t>(), rows}, {losses_.data(), rows});
  const WeightedSum sum = sum_rows(
      pass, [&](int64_t r, WeightedSum& part) { part.add(losses_.data()[r], weights_.data()[r]); });
  *total_weight().data() = sum.weight;
  *value(pass) = sum.mean(target().factor);
}

void LambdaRankLoss::backward_cpu(const OpContext& pass) {
  const auto rows = static_cast<size_t>(pass.rows);
  losses::LambdaRankLoss().slopes({in(0).value(), rows}, {labels_.data(), rows},
                                  {in(1).value<int64_t>(), rows}, {weights_.data(), rows},
                                  {slopes_.data(), rows});
  const float share = pass.step->loss_scale * share_of(*total_weight().data(), target().factor);
  with_write(write(0), [&](auto add) {
    float* dx = in(0).gradient();
    for (int64_t r = 0; r < pass.rows; ++r)
      dx[r] = (add ? dx[r] : 0.0f) + share * slopes_.data()[r];
  });
}

}  // namespace emblem
