#include "nn/ops/cross_entropy.h"
#include "nn/ops/launch.cuh"
#include "nn/ops/loss.h"

namespace emblem {
namespace {

struct Part {
  double loss, weight;
};

template <class T>
struct Samples {
  const T* logits;
  const float *labels, *weights;  // weights may be null
  float smoothing;

  __device__ float weight(int64_t r) const { return weights == nullptr ? 1.0f : weights[r]; }
  __device__ float label(int64_t r) const { return smooth_label(labels[r], smoothing); }
};

// The sum over a block, in a fixed order.
__device__ Part block_sum(Part part) {
  __shared__ Part shared[cuda::kThreads];
  shared[threadIdx.x] = part;
  for (int distance = cuda::kThreads / 2; distance > 0; distance /= 2) {
    __syncthreads();
    if (threadIdx.x < distance) {
      shared[threadIdx.x].loss += shared[threadIdx.x + distance].loss;
      shared[threadIdx.x].weight += shared[threadIdx.x + distance].weight;
    }
  }
  __syncthreads();
  return shared[0];
}

// A block for each group of rows.
template <class T>
__global__ void __launch_bounds__(cuda::kThreads)
    cross_entropy_kernel(Samples<T> samples, int64_t rows, int64_t rows_each, Part* parts) {
  const int64_t begin = blockIdx.x * rows_each, end = min(begin + rows_each, rows);
  Part part{};
  for (int64_t r = begin + threadIdx.x; r < end; r += cuda::kThreads) {
    const double weight = samples.weight(r);
    part.loss += weight * cross_entropy(cuda::widen(samples.logits[r]), samples.label(r));
    part.weight += weight;
  }
  part = block_sum(part);
  if (threadIdx.x == 0) parts[blockIdx.x] = part;
}

// One block: adds the mean to the graph's loss.
__global__ void __launch_bounds__(cuda::kThreads)
    mean_kernel(const Part* parts, int64_t count, double* total_weight, double* loss) {
  Part part{};
  for (int64_t i = threadIdx.x; i < count; i += cuda::kThreads) {
    part.loss += parts[i].loss;
    part.weight += parts[i].weight;
  }
  part = block_sum(part);
  if (threadIdx.x != 0) return;
  *total_weight = part.weight;
  *loss += part.weight == 0.0 ? 0.0 : part.loss / part.weight;
}

template <class T>
struct Slope {
  Samples<T> samples;
  const double* total_weight;
  const StepInputs* step;
  __device__ float operator()(int64_t r, float logit) const {
    return step->loss_scale * samples.weight(r) * share_of(*total_weight) *
           cross_entropy_slope(logit, samples.label(r));
  }
};

}  // namespace

void BinaryCrossEntropy::forward_cuda(const OpContext& pass) {
  const RowGroups groups = device_row_groups(pass.rows);
  Part* parts = reinterpret_cast<Part*>(pass.workspace);
  if (groups.count > 0) {
    cuda::with_type(in(0).dtype, [&](auto type) {
      using T = decltype(type);
      const Samples<T> samples{in(0).value<T>(), in(1).value(), weights(), smoothing_};
      cross_entropy_kernel<T>
          <<<static_cast<unsigned>(groups.count), cuda::kThreads, 0, pass.context.stream>>>(
              samples, pass.rows, groups.rows_each, parts);
      cuda::check_launch("launching a cross entropy");
    });
  }
  mean_kernel<<<1, cuda::kThreads, 0, pass.context.stream>>>(parts, groups.count,
                                                             total_weight_.data(), pass.loss);
  cuda::check_launch("launching the mean of a cross entropy");
}

void BinaryCrossEntropy::backward_cuda(const OpContext& pass) {
  cuda::with_type(in(0).dtype, [&](auto type) {
    using T = decltype(type);
    const Samples<T> samples{in(0).value<T>(), in(1).value(), weights(), smoothing_};
    cuda::map(pass.context, write(0), pass.rows, Slope<T>{samples, total_weight_.data(), pass.step},
              in(0).gradient<T>(), in(0).value<T>());
  });
}

}  // namespace emblem
