#include "nn/ops/loss/lambdarank_loss.h"
#include "nn/ops/loss/loss_cuda.cuh"

namespace emblem {
namespace {

// The first place of the sorted sessions that is not less than (kAfter: more than) `session`.
template <bool kAfter>
__device__ int64_t bound(const int64_t* sessions, int64_t rows, int64_t session) {
  int64_t low = 0, high = rows;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    const bool is_before = kAfter ? sessions[middle] <= session : sessions[middle] < session;
    (is_before ? low : high) = is_before ? middle + 1 : middle;
  }
  return low;
}

// What the kernels read: places are those of `order`, the rows by session.
template <class T>
struct Sessions {
  int64_t rows;
  const int64_t* sessions;
  const int32_t* order;
  const T* scores;
  RowTargets targets;

  __device__ float score(int64_t place) const { return cuda::widen(scores[order[place]]); }
  __device__ float label(int64_t place) const { return targets.label_of(order[place]); }
  // Calls body(place) for the places of the session of `place`, those of a warp together.
  template <class Body>
  __device__ void for_each_of_session(int64_t place, Body&& body) const {
    const int64_t first = bound<false>(sessions, rows, sessions[place]);
    const int64_t last = bound<true>(sessions, rows, sessions[place]);
    for (int64_t i = first + threadIdx.x; i < last; i += cuda::kWarp) body(i);
  }
};

// What is not a number ranks last.
__device__ float rank_key(float value) { return value == value ? value : -INFINITY; }

__device__ bool is_ranked_before(float a, int64_t place_a, float b, int64_t place_b) {
  return a > b || (a == b && place_a < place_b);
}

// A warp for each row: its discount, and its gain at its best rank.
template <class T>
__global__ void __launch_bounds__(cuda::kThreads)
    lambdarank_ranks_kernel(Sessions<T> in, float* discounts, float* gains) {
  const int64_t place = cuda::row_of_warp();
  if (place >= in.rows) return;
  const float score = rank_key(in.score(place)), label = in.label(place);
  float rank = 0.0f, best = 0.0f;
  in.for_each_of_session(place, [&](int64_t i) {
    rank += is_ranked_before(rank_key(in.score(i)), i, score, place) ? 1.0f : 0.0f;
    best += is_ranked_before(in.label(i), i, label, place) ? 1.0f : 0.0f;
  });
  rank = cuda::warp_sum(rank);
  best = cuda::warp_sum(best);
  if (threadIdx.x != 0) return;
  const int32_t row = in.order[place];
  discounts[row] = losses::rank_discount(static_cast<int64_t>(rank));
  gains[row] = label >= 0.0f ? label * losses::rank_discount(static_cast<int64_t>(best)) : NAN;
}

template <class T>
__device__ losses::RankedRow row_at(const Sessions<T>& in, const float* discounts, int64_t place) {
  return {in.score(place), in.label(place), discounts[in.order[place]]};
}

// A warp for each row: its loss, and 1 / the best gain of its session.
template <class T>
__global__ void __launch_bounds__(cuda::kThreads)
    lambdarank_loss_kernel(Sessions<T> in, const float* discounts, const float* gains,
                           float* losses, float* scales) {
  const int64_t place = cuda::row_of_warp();
  if (place >= in.rows) return;
  const losses::RankedRow row = row_at(in, discounts, place);
  float best = 0.0f, sum = 0.0f;
  in.for_each_of_session(place, [&](int64_t i) {
    best += gains[in.order[i]];
    const losses::RankedRow other = row_at(in, discounts, i);
    if (row.label > other.label) sum += static_cast<float>(row.loss_over(other));
  });
  best = cuda::warp_sum(best);
  sum = cuda::warp_sum(sum);
  if (threadIdx.x != 0) return;
  const float scale = best == 0.0f ? 0.0f : 1.0f / best;
  losses[in.order[place]] = sum * scale;
  scales[in.order[place]] = scale;
}

// A warp for each row.
template <bool kAdd, class T>
__global__ void __launch_bounds__(cuda::kThreads)
    lambdarank_gradient_kernel(Sessions<T> in, const float* discounts, const float* scales,
                               const double* total_weight, float factor, const StepInputs* step,
                               T* gradient) {
  const int64_t place = cuda::row_of_warp();
  if (place >= in.rows) return;
  const losses::RankedRow row = row_at(in, discounts, place);
  const float weight = in.targets.weight_of(in.order[place]);
  float sum = 0.0f;
  in.for_each_of_session(place, [&](int64_t i) {
    const losses::RankedRow other = row_at(in, discounts, i);
    if (row.label > other.label) sum -= weight * row.pull_over(other);
    if (row.label < other.label) sum += in.targets.weight_of(in.order[i]) * other.pull_over(row);
  });
  sum = cuda::warp_sum(sum);
  if (threadIdx.x != 0) return;
  const float share = step->loss_scale * share_of(*total_weight, factor);
  cuda::put<kAdd>(gradient[in.order[place]], share * scales[in.order[place]] * sum);
}

struct LossOfRow {
  const float* losses;
  __device__ double operator()(int64_t r) const { return losses[r]; }
};

}  // namespace

void LambdaRankLoss::prepare_cuda(int64_t max_rows) {
  session_order_.prepare(max_rows);
  for (Buffer<float>* buffer : {&discounts_, &gains_, &row_losses_, &scales_})
    *buffer = Buffer<float>(Device::kCuda, max_rows);
}

void LambdaRankLoss::forward_cuda(const OpContext& pass) {
  if (is_off(pass)) return detail::zero(pass.context, value(pass), sizeof(double));
  session_order_.sort(pass, in(1).value<int64_t>());
  if (pass.rows > 0) {
    cuda::with_type(in(0).dtype, [&](auto type) {
      using T = decltype(type);
      const Sessions<T> sessions{pass.rows, session_order_.sessions(), session_order_.rows(),
                                 in(0).value<T>(), row_targets()};
      const auto blocks = cuda::row_blocks(pass.rows);
      const cudaStream_t stream = pass.context.stream;
      lambdarank_ranks_kernel<<<blocks, cuda::row_threads(), 0, stream>>>(
          sessions, discounts_.data(), gains_.data());
      cuda::check_launch("launching the ranks of sessions");
      lambdarank_loss_kernel<<<blocks, cuda::row_threads(), 0, stream>>>(
          sessions, discounts_.data(), gains_.data(), row_losses_.data(), scales_.data());
      cuda::check_launch("launching a loss of ranks");
    });
  }
  cuda::mean_loss(pass, LossOfRow{row_losses_.data()}, row_targets(), target().factor,
                  total_weight().data(), value(pass));
}

void LambdaRankLoss::backward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  cuda::with_type(in(0).dtype, [&](auto type) {
    using T = decltype(type);
    const Sessions<T> sessions{pass.rows, session_order_.sessions(), session_order_.rows(),
                               in(0).value<T>(), row_targets()};
    with_write(write(0), [&](auto add) {
      lambdarank_gradient_kernel<decltype(add)::value>
          <<<cuda::row_blocks(pass.rows), cuda::row_threads(), 0, pass.context.stream>>>(
              sessions, discounts_.data(), scales_.data(), total_weight().data(), target().factor,
              pass.step, in(0).gradient<T>());
      cuda::check_launch("launching the gradient of a loss of ranks");
    });
  });
}

}  // namespace emblem
