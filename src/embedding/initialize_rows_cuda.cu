#include <algorithm>

#include "core/cuda_check.h"
#include "embedding/initialize_rows.h"

namespace emblem::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 1 << 16;

// One thread a float, of weights and then of state.
template <class W>
__global__ void initialize_rows_kernel(InitializeRows op) {
  const int64_t width = op.rows.dim + op.state_floats;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  for (; at < op.count * width; at += step) {
    const int64_t i = at / width, d = at % width;
    const auto row = op.row_numbers ? op.row_numbers[i] : static_cast<uint32_t>(op.first_row + i);
    if (row == kNoRow) continue;
    const auto key = static_cast<uint64_t>(op.row_numbers ? op.keys[i] : op.first_row + i);
    char* place = op.rows.row(row);
    if (d < op.rows.dim) {
      store_weight(reinterpret_cast<W*>(place) + d, op.initializer(op.seed, key, d));
    } else {
      op.rows.state(place)[d - op.rows.dim] = op.state;
    }
  }
}

}  // namespace

void initialize_rows(const Context& context, const InitializeRows& op) {
  const int64_t floats = op.count * (op.rows.dim + op.state_floats);
  if (floats == 0) return;
  const int64_t blocks = std::min(kMostBlocks, (floats + kThreads - 1) / kThreads);
  with_weight_type(op.rows.dtype, [&](auto type) {
    initialize_rows_kernel<decltype(type)>
        <<<static_cast<unsigned>(blocks), kThreads, 0, context.stream>>>(op);
  });
  cuda_check(cudaGetLastError(), "launching initialize_rows_kernel");
}

}  // namespace emblem::cuda
