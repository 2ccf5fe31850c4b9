// Deterministic sums: the gradients of a row are added in a fixed order.
#include "core/device/cuda_check.h"
#include "core/files/shared_memory.h"
#include "embedding/cuda/update/update_rows.cuh"

namespace emblem::cuda {
namespace {

constexpr uint32_t kChunk = 256;  // occurrences that are summed one after the other

// A group takes the chunk that begins at its occurrence, if one does. Chunks are counted from the
// beginning of their segment, and the sums of a segment's chunks added in order.
template <class S, class Finish>
__global__ void __launch_bounds__(kUpdateThreads)
    update_in_order_kernel(const __grid_constant__ BatchRef batch, TileArguments with,
                           Finish finish) {
  using Rows = Ring<S, typename Finish::R>;
  extern __shared__ __align__(16) char dynamic[];
  constexpr int kGroups = kUpdateThreads / S::kLanes;
  const int member = threadIdx.x % S::kLanes;
  const uint32_t class_first = batch.class_first[with.cls];
  const uint32_t all = batch.counters->occurrences[(batch.counters->pass + 1) & 1][with.cls];
  const uint32_t at = class_first + blockIdx.x * kGroups + threadIdx.x / S::kLanes;
  if (at >= class_first + all) return;
  const Occurrence of = batch.occurrences[at];
  const Segment segment = batch.segments[of.unique];
  const uint32_t offset = at - segment.begin;
  if (offset % kChunk != 0) return;
  const RowsOf table = rows_of(batch.tables[of.table()]);
  const uint32_t end = min(segment.end, at + kChunk);
  Share<S> sum{};
  for_each_chunk<S>(member, table.dim, [&](int c, int d) {
#pragma unroll 4
    for (uint32_t i = at; i < end; ++i) {
      const float coefficient =
          batch.sorted_coefficients != nullptr ? batch.sorted_coefficients[i] : 1.0f;
      const auto gradient = with.gradients.load<S::kVector>(batch.occurrences[i].source() + d);
      for (int v = 0; v < S::kVector; ++v) sum.chunk[c].at[v] += coefficient * gradient.at[v];
    }
  });
  const uint32_t chunks = (segment.end - segment.begin + kChunk - 1) / kChunk;
  if (chunks > 1) {
    // A window of kChunk occurrences contains the beginning of at most one chunk that begins a long
    // segment and of one that does not, so every chunk has a partial sum of its own.
    const auto partial_of = [&](uint32_t chunk) {
      const uint32_t begin = segment.begin - class_first + chunk * kChunk;
      return with.partials + (2 * static_cast<int64_t>(begin / kChunk) + (chunk == 0)) * S::kFloats;
    };
    float* mine = partial_of(offset / kChunk);
    for_each_chunk<S>(member, table.dim,
                      [&](int c, int d) { store_floats<S::kVector>(mine + d, sum.chunk[c]); });
    __threadfence();
    __syncwarp(group_mask<S>());
    uint32_t arrived = 0;
    uint32_t* arrivals = &with.arrivals[(segment.begin - class_first) / kChunk];
    if (member == 0) arrived = atomicAdd(arrivals, 1u);
    arrived = __shfl_sync(group_mask<S>(), arrived, 0, S::kLanes);
    if (arrived + 1 != chunks) return;
    __threadfence();
    if (member == 0) *arrivals = 0;
    sum = {};
    for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
      float* from = partial_of(chunk);
      for_each_chunk<S>(member, table.dim, [&](int c, int d) {
        for (int v = 0; v < S::kVector; ++v) {
          sum.chunk[c].at[v] += __ldcg(from + d + v);
          from[d + v] = 0.0f;
        }
      });
    }
  }
  if constexpr (Rows::kRows) {
    Rows ring(dynamic);
    char* row = table.row_at(table.locate(of.row));
    ring.fetch_row(0, table, row, member);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    auto share = ring.row(0, table, member);
    finish(table, row, member, sum, share);
  } else {
    finish(table, table.row_at(table.locate(of.row)), member, sum, with.positions[segment.begin]);
  }
}

template <class S, class Finish>
void launch_in_order(const Context& context, const BatchRef& batch, const UpdateRows& op,
                     Finish finish) {
  constexpr int kShared = Ring<S, typename Finish::R>::kSlotBytes * kUpdateThreads;
  constexpr uint32_t kGroups = kUpdateThreads / S::kLanes;
  allow_shared_memory(update_in_order_kernel<S, Finish>);
  update_in_order_kernel<S>
      <<<(op.most + kGroups - 1) / kGroups, kUpdateThreads, kShared, context.stream>>>(
          batch,
          {{op.gradients, op.gradient_type}, op.partials, op.arrivals, op.cls, 0, op.positions},
          finish);
  cuda_check(cudaGetLastError(), "launching update_in_order_kernel");
}

}  // namespace

void update_in_order(const Context& context, const BatchRef& batch, const UpdateRows& op) {
  with_apply(op, [&](auto as, const auto& apply) {
    launch_in_order<decltype(as)>(context, batch, op, apply);
  });
}

const float* squares_in_order(const Context& context, const BatchRef& batch, const UpdateRows& op) {
  float* squares = op.squares + batch.class_first[op.cls];
  cuda_check(cudaMemsetAsync(squares, 0, op.most * sizeof(float), context.stream), "zeroing");
  with_shape(op.shape, [&](auto as) {
    using S = decltype(as);
    launch_in_order<S>(context, batch, op, AddSquare<S>{nullptr, op.squares});
  });
  return squares;
}

void store_sums_in_order(const Context& context, const BatchRef& batch, const UpdateRows& op) {
  with_shape(op.shape, [&](auto as) {
    using S = decltype(as);
    launch_in_order<S>(context, batch, op, StoreSum<S>{});
  });
}

}  // namespace emblem::cuda
