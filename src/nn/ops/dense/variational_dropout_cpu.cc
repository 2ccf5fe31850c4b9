#include <algorithm>

#include "core/threads/thread_pool.h"
#include "nn/ops/dense/dropout.h"
#include "nn/ops/dense/variational_dropout.h"

namespace emblem {

void VariationalDropout::prepare(Device device, int64_t max_rows) {
  std::vector<int32_t> features, begins(begins_.begin(), begins_.end());
  for (int64_t f = 0; f < features_; ++f)
    features.insert(features.end(), begins_[f + 1] - begins_[f], static_cast<int32_t>(f));
  const Context context{.device = device};
  feature_of_ = Buffer<int32_t>::from(context, features);
  device_begins_ = Buffer<int32_t>::from(context, begins);
  dropped_ = Buffer<float>(device, max_rows, features_);
  context.synchronize();
}

void VariationalDropout::forward_cpu(const OpContext& pass) {
  const float* theta = pass.parameters + theta_;
  const int64_t cols = out().cols;
  const uint64_t stream = Dropout::stream_of(stream_, pass.step->draw);
  parallel_for(pass.context, pass.rows, rows_per_chunk(cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      float* dropped = dropped_.data() + r * features_;
      for (int64_t f = 0; f < features_; ++f)
        dropped[f] = pass.phase == Phase::kTrain
                         ? draw(pass.seed, stream, r * features_ + f, theta[f])
                         : sigmoid_inline(theta[f]);
      for (int64_t j = 0; j < cols; ++j)
        out().value()[r * cols + j] =
            in(0).value()[r * cols + j] * (1.0f - dropped[feature_of_.data()[j]]);
    }
  });
  double kept = 0.0;
  for (int64_t f = 0; f < features_; ++f) kept += 1.0f - sigmoid_inline(theta[f]);
  pass.losses[slot_] = pass.rows == 0 ? 0.0 : lambda_ * kept / static_cast<double>(pass.rows);
}

void VariationalDropout::backward_cpu(const OpContext& pass) {
  const float* theta = pass.parameters + theta_;
  const int64_t cols = out().cols;
  const RowGroups groups = row_groups(pass.rows);
  parallel_for(pass.context, pass.rows, groups.rows_each, [&](int64_t begin, int64_t end) {
    float* sums = pass.workspace + begin / groups.rows_each * features_;
    std::fill_n(sums, features_, 0.0f);
    for (int64_t r = begin; r < end; ++r) {
      const float *x = in(0).value() + r * cols, *dy = out().gradient() + r * cols;
      const float* dropped = dropped_.data() + r * features_;
      for (int64_t f = 0; f < features_; ++f) {
        float product = 0.0f;
        for (int64_t j = begins_[f]; j < begins_[f + 1]; ++j) product += dy[j] * x[j];
        sums[f] -= product * dropped[f] * (1.0f - dropped[f]) / kTemperature;
      }
      with_write(write(0), [&](auto add) {
        float* dx = in(0).gradient() + r * cols;
        for (int64_t j = 0; j < cols; ++j)
          dx[j] = (add ? dx[j] : 0.0f) + dy[j] * (1.0f - dropped[feature_of_.data()[j]]);
      });
    }
  });
  float* gradient = pass.gradients + theta_;
  sum_groups(pass.context, pass.workspace, groups.count, features_, gradient);
  for (int64_t f = 0; f < features_; ++f)
    gradient[f] = gradient[f] * logit_slope(theta[f]) +
                  pass.step->loss_scale * penalty_slope(theta[f], lambda_, pass.rows);
}

}  // namespace emblem
