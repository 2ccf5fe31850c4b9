// nn/ops/loss/loss_cuda.cuh - weighted sums over rows on a GPU, in an order that depends on the
// shape alone.
#pragma once

#include "nn/ops/launch.cuh"
#include "nn/ops/loss/loss.h"

namespace emblem::cuda {

struct LossPart {
  double loss, weight;
};

// The sum over a block, in a fixed order.
__device__ inline LossPart block_sum(LossPart part) {
  __shared__ LossPart shared[kThreads];
  shared[threadIdx.x] = part;
  for (int distance = kThreads / 2; distance > 0; distance /= 2) {
    __syncthreads();
    if (threadIdx.x < distance) {
      shared[threadIdx.x].loss += shared[threadIdx.x + distance].loss;
      shared[threadIdx.x].weight += shared[threadIdx.x + distance].weight;
    }
  }
  __syncthreads();
  return shared[0];
}

// A block for each group of rows; row(r) is the loss of a row.
template <class Row>
__global__ void __launch_bounds__(kThreads)
    loss_kernel(Row row, RowTargets targets, int64_t rows, int64_t rows_each, LossPart* parts) {
  const int64_t begin = blockIdx.x * rows_each, end = min(begin + rows_each, rows);
  LossPart part{};
  for (int64_t r = begin + threadIdx.x; r < end; r += kThreads) {
    const double weight = targets.weight_of(r);
    part.loss += weight * row(r);
    part.weight += weight;
  }
  part = block_sum(part);
  if (threadIdx.x == 0) parts[blockIdx.x] = part;
}

// One block.
static __global__ void __launch_bounds__(kThreads)
    loss_mean_kernel(const LossPart* parts, int64_t count, float factor, double* total_weight,
                     double* loss) {
  LossPart part{};
  for (int64_t i = threadIdx.x; i < count; i += kThreads) {
    part.loss += parts[i].loss;
    part.weight += parts[i].weight;
  }
  part = block_sum(part);
  if (threadIdx.x != 0) return;
  *total_weight = part.weight;
  *loss = part.weight == 0.0 ? 0.0 : factor * part.loss / part.weight;
}

// *loss = factor times the weighted mean of row(r) over the rows; the workspace is a loss'.
template <class Row>
void mean_loss(const OpContext& pass, Row row, RowTargets targets, float factor,
               double* total_weight, double* loss) {
  const RowGroups groups = device_row_groups(pass.rows);
  LossPart* parts = reinterpret_cast<LossPart*>(pass.workspace);
  if (groups.count > 0) {
    loss_kernel<<<static_cast<unsigned>(groups.count), kThreads, 0, pass.context.stream>>>(
        row, targets, pass.rows, groups.rows_each, parts);
    check_launch("launching a loss");
  }
  loss_mean_kernel<<<1, kThreads, 0, pass.context.stream>>>(parts, groups.count, factor,
                                                            total_weight, loss);
  check_launch("launching the mean of a loss");
}

}  // namespace emblem::cuda
