#include "core/thread_pool.h"
#include "nn/ops/cross_entropy.h"
#include "nn/ops/loss.h"

namespace emblem {

void BinaryCrossEntropy::forward_cpu(const OpContext& pass) {
  struct Part {
    double loss = 0.0, weight = 0.0;
  };
  const RowGroups groups = row_groups(pass.rows);
  const float* weights = this->weights();
  Part parts[kMaxRowGroups];
  parallel_for(pass.context, pass.rows, groups.rows_each, [&](int64_t begin, int64_t end) {
    Part part;
    for (int64_t r = begin; r < end; ++r) {
      const double weight = weights == nullptr ? 1.0f : weights[r];
      const float label = smooth_label(in(1).value()[r], smoothing_);
      part.loss += weight * cross_entropy(in(0).value()[r], label);
      part.weight += weight;
    }
    parts[begin / groups.rows_each] = part;
  });
  Part total;
  for (int64_t group = 0; group < groups.count; ++group) {
    total.loss += parts[group].loss;
    total.weight += parts[group].weight;
  }
  *total_weight_.data() = total.weight;
  *pass.loss += total.weight == 0.0 ? 0.0 : total.loss / total.weight;
}

void BinaryCrossEntropy::backward_cpu(const OpContext& pass) {
  const float share = pass.step->loss_scale * share_of(*total_weight_.data());
  const float* weights = this->weights();
  with_write(write(0), [&](auto add) {
    parallel_for(pass.context, pass.rows, 4096, [&](int64_t begin, int64_t end) {
      float* dx = in(0).gradient();
      for (int64_t r = begin; r < end; ++r) {
        const float label = smooth_label(in(1).value()[r], smoothing_);
        const float weight = weights == nullptr ? 1.0f : weights[r];
        dx[r] =
            (add ? dx[r] : 0.0f) + weight * share * cross_entropy_slope(in(0).value()[r], label);
      }
    });
  });
}

}  // namespace emblem
