#include "shard/cuda/pooled_columns.h"

#include "core/device/blocks.h"
#include "core/device/cuda_check.h"
#include "embedding/cuda/lookup/out_ref.cuh"

namespace emblem::cuda {
namespace {

constexpr int kLanes = 32;  // columns of a bag at a time
constexpr int kBags = 8;    // bags of a block

__device__ float element(const void* data, DType dtype, int64_t at) {
  if (dtype == DType::kF32) return static_cast<const float*>(data)[at];
  if (dtype == DType::kF16) return load_weight(static_cast<const F16*>(data) + at);
  return load_weight(static_cast<const Bf16*>(data) + at);
}

struct Move {
  const PooledColumn* columns;
  int32_t count;
  int64_t bags;
  int64_t width;  // width of the output or its gradients
  const void* from;
  DType from_type;
  OutRef to;
};

// Calls body(element of the vectors, element of the output), one bag by each row of threads.
template <class Body>
__device__ void for_each_element(const Move& move, const Body& body) {
  const int64_t bag = static_cast<int64_t>(blockIdx.x) * kBags + threadIdx.y;
  if (bag >= move.bags) return;
  for (int32_t i = threadIdx.x; i < move.count; i += kLanes) {
    const PooledColumn column = move.columns[i];
    body(move.bags * column.first + bag * column.width + (i - column.first),
         bag * move.width + column.out);
  }
}

__global__ void __launch_bounds__(kLanes* kBags) vectors_to_columns_kernel(Move move) {
  for_each_element(move, [&](int64_t vector, int64_t out) {
    move.to.put(out, element(move.from, move.from_type, vector));
  });
}

__global__ void __launch_bounds__(kLanes* kBags) columns_to_vectors_kernel(Move move) {
  for_each_element(move, [&](int64_t vector, int64_t gradient) {
    move.to.put(vector, element(move.from, move.from_type, gradient));
  });
}

template <class Kernel>
void launch(const Context& context, Kernel kernel, const Move& move) {
  if (move.bags == 0 || move.count == 0) return;
  kernel<<<blocks_of(move.bags, kBags), dim3(kLanes, kBags), 0, context.stream>>>(move);
  cuda_check(cudaGetLastError(), "moving vectors of bags");
}

}  // namespace

void vectors_to_columns(const Context& context, const PooledColumn* columns, int32_t count,
                        ConstAnyView vectors, AnyView out) {
  launch(context, vectors_to_columns_kernel,
         {columns, count, out.rows, out.cols, vectors.data, vectors.dtype, {out.data, out.dtype}});
}

void columns_to_vectors(const Context& context, const PooledColumn* columns, int32_t count,
                        ConstAnyView gradients, AnyView vectors) {
  launch(context, columns_to_vectors_kernel,
         {columns,
          count,
          gradients.rows,
          gradients.cols,
          gradients.data,
          gradients.dtype,
          {vectors.data, vectors.dtype}});
}

}  // namespace emblem::cuda
