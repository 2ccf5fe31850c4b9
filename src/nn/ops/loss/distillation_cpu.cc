#include "kernels/simd.h"
#include "nn/ops/loss/distillation.h"
#include "nn/ops/loss/loss_sums.h"

namespace emblem {

void DistillationLoss::forward_cpu(const OpContext& pass) {
  if (is_off(pass)) return void(*value(pass) = 0.0);
  const int64_t cols = in(0).cols;
  const RowTargets targets = row_targets();
  auto* rows = reinterpret_cast<DistillationRow*>(rows_.data());
  const WeightedSum sum = sum_rows(pass, [&](int64_t r, WeightedSum& part) {
    const float *x = in(0).value() + r * cols, *y = in(1).value() + r * cols;
    float squares = 0.0f;
    for (int64_t j = 0; j < cols; ++j) squares += (x[j] - y[j]) * (x[j] - y[j]);
    rows[r] = DistillationRow::of(similarity_, cols, squares, simd::dot(x, y, cols),
                                  simd::dot(x, x, cols), simd::dot(y, y, cols));
    part.add(rows[r].loss, targets.weight_of(r));
  });
  *total_weight().data() = sum.weight;
  *mean_.data() = sum.mean(1.0);
  *value(pass) = distillation_value(similarity_, *mean_.data(), pass.rows, factor(pass));
}

void DistillationLoss::backward_cpu(const OpContext& pass) {
  const int64_t cols = in(0).cols;
  const RowTargets targets = row_targets();
  const auto* rows = reinterpret_cast<const DistillationRow*>(rows_.data());
  const float share =
      pass.step->loss_scale * distillation_share(similarity_, *mean_.data(), pass.rows,
                                                 *total_weight().data(), factor(pass));
  with_write(write(0), [&](auto add) {
    parallel_for(pass.context, pass.rows, rows_per_chunk(cols), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const float *x = in(0).value() + r * cols, *y = in(1).value() + r * cols;
        float* dx = in(0).gradient() + r * cols;
        const float weight = share * targets.weight_of(r);
        for (int64_t j = 0; j < cols; ++j)
          dx[j] = (add ? dx[j] : 0.0f) + weight * rows[r].slope(similarity_, cols, x[j], y[j]);
      }
    });
  });
}

}  // namespace emblem
