#include "core/thread_pool.h"
#include "nn/ops/loss.h"
#include "nn/ops/loss_sums.h"

namespace emblem {

template <class Formula>
void RowLoss<Formula>::forward_cpu(const OpContext& pass) {
  if (this->is_off(pass)) return void(*this->value(pass) = 0.0);
  const Tensor& logits = this->in(0);
  const RowTargets targets = this->row_targets();
  const WeightedSum sum = sum_rows(pass, [&](int64_t r, WeightedSum& part) {
    const float* row = logits.value() + r * logits.cols;
    const auto x = [row](int64_t c) { return row[c]; };
    part.add(formula_.value(x, logits.cols, targets.label_of(r)), targets.weight_of(r));
  });
  *this->total_weight().data() = sum.weight;
  *this->value(pass) = sum.mean(this->target().factor);
}

template <class Formula>
void RowLoss<Formula>::backward_cpu(const OpContext& pass) {
  const Tensor& logits = this->in(0);
  const RowTargets targets = this->row_targets();
  const float share =
      pass.step->loss_scale * share_of(*this->total_weight().data(), this->target().factor);
  with_write(this->write(0), [&](auto add) {
    parallel_for(pass.context, pass.rows, 4096, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const float* row = logits.value() + r * logits.cols;
        float* dx = logits.gradient() + r * logits.cols;
        const float weight = targets.weight_of(r) * share;
        formula_.slopes(
            [row](int64_t c) { return row[c]; }, logits.cols, targets.label_of(r),
            [&](int64_t c, float slope) { dx[c] = (add ? dx[c] : 0.0f) + weight * slope; });
      }
    });
  });
}

template class RowLoss<losses::BinaryCrossEntropy>;
template class RowLoss<losses::Focal>;
template class RowLoss<losses::SquaredError>;
template class RowLoss<losses::SoftmaxCrossEntropy>;

}  // namespace emblem
