#include "nn/ops/lanes.cuh"
#include "nn/ops/loss/jrc_loss.h"
#include "nn/ops/loss/loss_cuda.cuh"

namespace emblem {
namespace {

template <class T>
struct Samples {
  float alpha;
  const T* logits;
  RowTargets targets;
  const float* others;
  __device__ JrcRow at(int64_t r) const {
    return {alpha,
            {cuda::widen(logits[2 * r]), cuda::widen(logits[2 * r + 1])},
            targets.label_of(r),
            others[r]};
  }
  __device__ double operator()(int64_t r) const { return at(r).loss(); }
};

// Where the session that begins at `first` ends, or `first` where another one's is going on. A warp
// asks together.
__device__ int64_t end_of_session(const int64_t* sessions, int64_t first, int64_t rows) {
  const int64_t session = sessions[first];
  if (first > 0 && sessions[first - 1] == session) return first;
  for (int64_t begin = first; begin < rows; begin += cuda::kWarp) {
    const int64_t i = begin + threadIdx.x;
    const unsigned others = __ballot_sync(~0u, i >= rows || sessions[i] != session);
    if (others != 0) return begin + __ffs(others) - 1;
  }
  return rows;
}

// A warp for each place in the order of sessions; those at which a session begins work on it.
template <class T>
__global__ void __launch_bounds__(cuda::kThreads)
    jrc_others_kernel(int64_t rows, const int64_t* sessions, const int32_t* order,
                      Samples<T> samples, float* others) {
  const int64_t first = cuda::row_of_warp();
  if (first >= rows) return;
  const int64_t last = end_of_session(sessions, first, rows);
  for (int label = 0; label < 2; ++label) {
    const auto is = [&](int64_t i, int wanted) {
      return samples.targets.label_of(order[i]) == static_cast<float>(wanted);
    };
    float most = -INFINITY, sum = 0.0f;
    for (int64_t i = first + threadIdx.x; i < last; i += cuda::kWarp)
      if (is(i, 1 - label)) most = fmaxf(most, cuda::widen(samples.logits[2 * order[i] + label]));
    most = cuda::warp_max(most);
    for (int64_t i = first + threadIdx.x; i < last; i += cuda::kWarp)
      if (is(i, 1 - label)) sum += expf(cuda::widen(samples.logits[2 * order[i] + label]) - most);
    sum = cuda::warp_sum(sum);
    for (int64_t i = first + threadIdx.x; i < last; i += cuda::kWarp)
      if (is(i, label)) others[order[i]] = most + logf(sum);
  }
}

template <bool kAdd, class T>
__global__ void __launch_bounds__(cuda::kThreads)
    jrc_gradient_kernel(int64_t rows, const int64_t* sessions, const int32_t* order,
                        Samples<T> samples, const double* total_weight, float factor,
                        const StepInputs* step, T* gradient) {
  const int64_t first = cuda::row_of_warp();
  if (first >= rows) return;
  const int64_t last = end_of_session(sessions, first, rows);
  if (first == last) return;
  // By label: the pull of all rows on those of the other label, and what that is divided over.
  float pulls[2] = {}, totals[2] = {-INFINITY, -INFINITY};
  for (int64_t i = first + threadIdx.x; i < last; i += cuda::kWarp) {
    const JrcRow row = samples.at(order[i]);
    if (!row.is_known()) continue;
    const int label = row.is_positive() ? 1 : 0;
    pulls[label] += samples.targets.weight_of(order[i]) * row.pull();
    totals[label] = row.others;
  }
  for (int label = 0; label < 2; ++label) {
    pulls[label] = cuda::warp_sum(pulls[label]);
    totals[label] = cuda::warp_max(totals[label]);
  }
  const float share = step->loss_scale * share_of(*total_weight, factor);
  for (int64_t i = first + threadIdx.x; i < last; i += cuda::kWarp) {
    const int64_t r = order[i];
    const JrcRow row = samples.at(r);
    for (int column = 0; column < 2; ++column) {
      float slope = samples.targets.weight_of(r) * row.slope(column);
      // Rows of label `column` see this one among their others.
      if (row.is_known() && row.is_positive() != (column == 1) && pulls[column] != 0.0f)
        slope += pulls[column] * expf(row.logits[column] - totals[column]);
      cuda::put<kAdd>(gradient[2 * r + column], share * slope);
    }
  }
}

}  // namespace

void JrcLoss::forward_cuda(const OpContext& pass) {
  if (is_off(pass)) return detail::zero(pass.context, value(pass), sizeof(double));
  const cudaStream_t stream = pass.context.stream;
  session_order_.sort(pass, in(1).value<int64_t>());
  cuda::with_type(in(0).dtype, [&](auto type) {
    using T = decltype(type);
    const Samples<T> samples{alpha_, in(0).value<T>(), row_targets(), others_.data()};
    if (pass.rows > 0) {
      jrc_others_kernel<<<cuda::row_blocks(pass.rows), cuda::row_threads(), 0, stream>>>(
          pass.rows, session_order_.sessions(), session_order_.rows(), samples, others_.data());
      cuda::check_launch("launching the sums of sessions");
    }
    cuda::mean_loss(pass, samples, row_targets(), target().factor, total_weight().data(),
                    value(pass));
  });
}

void JrcLoss::backward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  cuda::with_type(in(0).dtype, [&](auto type) {
    using T = decltype(type);
    with_write(write(0), [&](auto add) {
      jrc_gradient_kernel<decltype(add)::value>
          <<<cuda::row_blocks(pass.rows), cuda::row_threads(), 0, pass.context.stream>>>(
              pass.rows, session_order_.sessions(), session_order_.rows(),
              Samples<T>{alpha_, in(0).value<T>(), row_targets(), others_.data()},
              total_weight().data(), target().factor, pass.step, in(0).gradient<T>());
      cuda::check_launch("launching the gradient of a loss of sessions");
    });
  });
}

}  // namespace emblem
