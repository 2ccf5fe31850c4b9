#include <algorithm>

#include "core/cuda_check.h"
#include "embedding/gather_pool.h"

namespace emblem::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int64_t kMostBlocks = 1 << 16;

// Each warp takes bags in turn; its lanes own dimensions, so that the reads of a row are coalesced
// and the sum has the order of the keys.
template <class W>
__global__ void gather_pool_kernel(GatherPool op) {
  const int lane = threadIdx.x % 32;
  const int64_t warps = static_cast<int64_t>(gridDim.x) * (kThreads / 32);
  int64_t bag = static_cast<int64_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  for (; bag < op.bags; bag += warps) {
    const int64_t begin = op.offsets ? op.offsets[bag] : bag;
    const int64_t end = op.offsets ? op.offsets[bag + 1] : bag + 1;
    float total = 0.0f;
    for (int64_t i = begin; i < end; ++i) total += op.weights ? op.weights[i] : 1.0f;
    const bool divide = op.pooling == Pooling::kMean && (op.offsets || op.weights);
    const float factor = !divide ? 1.0f : total != 0.0f ? 1.0f / total : 0.0f;
    for (int64_t d = lane; d < op.rows.dim; d += 32) {
      float sum = 0.0f;
      for (int64_t i = begin; i < end; ++i) {
        const uint64_t row = op.row_numbers ? op.row_numbers[i] : static_cast<uint64_t>(op.keys[i]);
        const float value = op.row_numbers && row == kNoRow
                                ? op.absent(op.seed, static_cast<uint64_t>(op.keys[i]), d)
                                : load_weight(reinterpret_cast<const W*>(op.rows.row(row)) + d);
        sum += (op.weights ? op.weights[i] : 1.0f) * value;
      }
      op.out[bag * op.out_stride + d] = sum * factor;
    }
  }
}

}  // namespace

void gather_pool(const Context& context, const GatherPool& op) {
  if (op.bags == 0) return;
  const int64_t blocks = std::min(kMostBlocks, (op.bags + kThreads / 32 - 1) / (kThreads / 32));
  with_weight_type(op.rows.dtype, [&](auto type) {
    gather_pool_kernel<decltype(type)>
        <<<static_cast<unsigned>(blocks), kThreads, 0, context.stream>>>(op);
  });
  cuda_check(cudaGetLastError(), "launching gather_pool_kernel");
}

}  // namespace emblem::cuda
