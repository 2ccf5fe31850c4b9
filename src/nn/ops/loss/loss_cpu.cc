#include "core/threads/thread_pool.h"
#include "nn/ops/loss/loss.h"
#include "nn/ops/loss/loss_sums.h"

namespace emblem {

void RowLoss::forward_cpu(const OpContext& pass) {
  if (is_off(pass)) return void(*value(pass) = 0.0);
  const Tensor& logits = in(0);
  const RowTargets targets = row_targets();
  with_formula([&](const auto& formula) {
    const WeightedSum sum = sum_rows(pass, [&](int64_t r, WeightedSum& part) {
      const float* row = logits.value() + r * logits.cols;
      const auto x = [row](int64_t c) { return row[c]; };
      part.add(formula.value(x, logits.cols, targets.label_of(r)), targets.weight_of(r));
    });
    *total_weight().data() = sum.weight;
    *value(pass) = sum.mean(target().factor);
  });
}

void RowLoss::backward_cpu(const OpContext& pass) {
  const Tensor& logits = in(0);
  const RowTargets targets = row_targets();
  const float share = pass.step->loss_scale * share_of(*total_weight().data(), target().factor);
  with_formula([&](const auto& formula) {
    with_write(write(0), [&](auto add) {
      parallel_for(pass.context, pass.rows, 4096, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const float* row = logits.value() + r * logits.cols;
          float* dx = logits.gradient() + r * logits.cols;
          const float weight = targets.weight_of(r) * share;
          formula.slopes(
              [row](int64_t c) { return row[c]; }, logits.cols, targets.label_of(r),
              [&](int64_t c, float slope) { dx[c] = (add ? dx[c] : 0.0f) + weight * slope; });
        }
      });
    });
  });
}

}  // namespace emblem
