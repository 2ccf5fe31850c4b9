#include <algorithm>

#include "core/cuda_check.h"
#include "embedding/segment_update.h"

namespace emblem::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int64_t kMostBlocks = 1 << 16;

__device__ float summed(const SegmentUpdate& op, int64_t segment, int64_t d) {
  float sum = 0.0f;
  for (uint32_t i = op.segments.offsets[segment]; i < op.segments.offsets[segment + 1]; ++i) {
    const float gradient = op.gradients[op.segments.sources[i] + d];
    sum += op.segments.coefficients ? op.segments.coefficients[i] * gradient : gradient;
  }
  return sum;
}

template <class W>
__device__ float full_gradient(const SegmentUpdate& op, int64_t segment, int64_t d,
                               const W* weight) {
  const float gradient = op.scale * summed(op, segment, d);
  return op.l2 == 0.0f ? gradient : gradient + op.l2 * load_weight(weight);
}

// A warp a segment; its lanes own dimensions.
template <class W, class R>
__global__ void segment_update_kernel(SegmentUpdate op, R rule) {
  const int lane = threadIdx.x % 32;
  const int64_t warps = static_cast<int64_t>(gridDim.x) * (kThreads / 32);
  int64_t segment = static_cast<int64_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  for (; segment < op.segments.count; segment += warps) {
    char* row = op.rows.row(op.segments.rows[segment]);
    W* weights = reinterpret_cast<W*>(row);
    float* state = op.rows.state(row);
    const int64_t dim = op.rows.dim;
    if constexpr (R::kRowWise) {
      float square = 0.0f;
      for (int64_t d = lane; d < dim; d += 32) {
        const float gradient = full_gradient(op, segment, d, weights + d);
        square += gradient * gradient;
      }
      for (int step = 16; step > 0; step /= 2) square += __shfl_xor_sync(~0u, square, step);
      float accumulator = state[0];  // every lane computes the same; one writes it
      const float factor = rule.factor(square / static_cast<float>(dim), &accumulator);
      __syncwarp();
      if (lane == 0) state[0] = accumulator;
      for (int64_t d = lane; d < dim; d += 32) {
        const float gradient = full_gradient(op, segment, d, weights + d);
        store_weight(weights + d, load_weight(weights + d) - factor * gradient);
      }
    } else {
      for (int64_t d = lane; d < dim; d += 32) {
        float weight = load_weight(weights + d);
        rule(full_gradient(op, segment, d, weights + d), weight, state + d, dim);
        store_weight(weights + d, weight);
      }
    }
  }
}

}  // namespace

void segment_update(const Context& context, const SegmentUpdate& op) {
  if (op.segments.count == 0) return;
  const int64_t blocks =
      std::min(kMostBlocks, (op.segments.count + kThreads / 32 - 1) / (kThreads / 32));
  with_weight_type(op.rows.dtype, [&](auto type) {
    std::visit(
        [&](const auto& rule) {
          segment_update_kernel<decltype(type)>
              <<<static_cast<unsigned>(blocks), kThreads, 0, context.stream>>>(op, rule);
        },
        op.rule);
  });
  cuda_check(cudaGetLastError(), "launching segment_update_kernel");
}

}  // namespace emblem::cuda
