#include "embedding/update_rows.h"

#include "core/cuda_check.h"
#include "embedding/device_batch.cuh"
#include "embedding/row_vector.cuh"

namespace emblem::cuda {
namespace {

constexpr int kThreads = 256;

template <class S>
struct Share {  // a lane's part of a row
  Floats<S::kVector> chunk[S::kChunks];
};

template <class S>
__device__ int dimension(int member, int chunk) {
  return (chunk * S::kLanes + member) * S::kVector;
}

template <class S, class Body>
__device__ void for_each_chunk(int member, int dim, Body&& body) {
#pragma unroll
  for (int c = 0; c < S::kChunks; ++c) {
    const int d = dimension<S>(member, c);
    if (d < dim) body(c, d);
  }
}

// Weights and optimizer state of a row, in registers.
template <class S, int kStates>
struct RowShare {
  Share<S> weights;
  Share<S> states[kStates > 0 ? kStates : 1];
};

template <class S, class R>
using RowOf = RowShare<S, R::kRowWise ? 0 : R::kStates>;

template <class S, class R>
__device__ RowOf<S, R> load_row(const DeviceTableRef& table, char* row, int member) {
  RowOf<S, R> share;
  for_each_chunk<S>(member, table.dim, [&](int c, int d) {
    Floats<S::kVector>& w = share.weights.chunk[c];
    if (table.dtype == DType::kF32)
      w = load_floats<S::kVector>(reinterpret_cast<const float*>(row) + d);
    else if (table.dtype == DType::kF16)
      w = load_floats<S::kVector>(reinterpret_cast<const F16*>(row) + d);
    else
      w = load_floats<S::kVector>(reinterpret_cast<const Bf16*>(row) + d);
    if constexpr (!R::kRowWise) {
#pragma unroll
      for (int s = 0; s < R::kStates; ++s)
        share.states[s].chunk[c] = load_floats<S::kVector>(table.state(row) + s * table.dim + d);
    }
  });
  return share;
}

template <class S, class R>
__device__ void store_row(const DeviceTableRef& table, char* row, int member,
                          const RowOf<S, R>& share) {
  for_each_chunk<S>(member, table.dim, [&](int c, int d) {
    const Floats<S::kVector>& w = share.weights.chunk[c];
    if (table.dtype == DType::kF32)
      store_floats<S::kVector>(reinterpret_cast<float*>(row) + d, w);
    else if (table.dtype == DType::kF16)
      store_floats<S::kVector>(reinterpret_cast<F16*>(row) + d, w);
    else
      store_floats<S::kVector>(reinterpret_cast<Bf16*>(row) + d, w);
    if constexpr (!R::kRowWise) {
#pragma unroll
      for (int s = 0; s < R::kStates; ++s)
        store_floats<S::kVector>(table.state(row) + s * table.dim + d, share.states[s].chunk[c]);
    }
  });
}

template <class S>
__device__ uint32_t group_mask() {
  if constexpr (S::kLanes == 32) {
    return ~0u;
  } else {
    return ((1u << S::kLanes) - 1) << (threadIdx.x % 32 / S::kLanes * S::kLanes);
  }
}

template <class S>
__device__ float sum_of_group(float value) {
#pragma unroll
  for (int step = S::kLanes / 2; step > 0; step /= 2)
    value += __shfl_xor_sync(group_mask<S>(), value, step);
  return value;
}

// What is done with the summed gradient of a row.
template <class S, class R>
struct Apply {
  R rule;
  float scale, l2;
  using Row = RowOf<S, R>;
  static constexpr bool kReadsRow = true;

  __device__ void operator()(const DeviceTableRef& table, char* row, int member, Share<S>& sum,
                             Row& share) const {
    for_each_chunk<S>(member, table.dim, [&](int c, int) {
#pragma unroll
      for (int v = 0; v < S::kVector; ++v) {
        float& g = sum.chunk[c].at[v];
        g = l2 == 0.0f ? scale * g : scale * g + l2 * share.weights.chunk[c].at[v];
      }
    });
    if constexpr (R::kRowWise) {
      float square = 0.0f;
      for_each_chunk<S>(member, table.dim, [&](int c, int) {
        for (int v = 0; v < S::kVector; ++v) square += sum.chunk[c].at[v] * sum.chunk[c].at[v];
      });
      square = sum_of_group<S>(square);
      float accumulator = table.state(row)[0];  // every lane computes the same; one writes it
      const float factor = rule.factor(square / static_cast<float>(table.dim), &accumulator);
      __syncwarp(group_mask<S>());
      if (member == 0) table.state(row)[0] = accumulator;
      for_each_chunk<S>(member, table.dim, [&](int c, int) {
        for (int v = 0; v < S::kVector; ++v)
          share.weights.chunk[c].at[v] -= factor * sum.chunk[c].at[v];
      });
    } else {
      for_each_chunk<S>(member, table.dim, [&](int c, int) {
#pragma unroll
        for (int v = 0; v < S::kVector; ++v) {
          float states[R::kStates > 0 ? R::kStates : 1];
#pragma unroll
          for (int s = 0; s < R::kStates; ++s) states[s] = share.states[s].chunk[c].at[v];
          rule(sum.chunk[c].at[v], share.weights.chunk[c].at[v], states, 1);
#pragma unroll
          for (int s = 0; s < R::kStates; ++s) share.states[s].chunk[c].at[v] = states[s];
        }
      });
    }
    store_row<S, R>(table, row, member, share);
  }
};

template <class S>
struct AddSquare {
  double* total;
  using Row = RowOf<S, Sgd>;
  static constexpr bool kReadsRow = false;

  __device__ void operator()(const DeviceTableRef& table, char*, int member, Share<S>& sum,
                             Row&) const {
    float square = 0.0f;
    for_each_chunk<S>(member, table.dim, [&](int c, int) {
      for (int v = 0; v < S::kVector; ++v) square += sum.chunk[c].at[v] * sum.chunk[c].at[v];
    });
    square = sum_of_group<S>(square);
    if (member == 0) atomicAdd(total, static_cast<double>(square));
  }
};

template <class S, class R>
__device__ typename Apply<S, R>::Row row_for(const Apply<S, R>&, const DeviceTableRef& table, char* row,
                                    int member) {
  return load_row<S, R>(table, row, member);
}
template <class S>
__device__ typename AddSquare<S>::Row row_for(const AddSquare<S>&, const DeviceTableRef&, char*, int) {
  return {};
}

struct TileArguments {
  const float* gradients;
  float* partials;
  uint32_t* arrivals;
  int cls;
};

// A group's part in a row whose occurrences lie in several tiles: whoever comes last has the sum.
template <class S>
__device__ bool add_partial(const BatchRef& batch, const TileArguments& with, Segment segment,
                            int member, int dim, Share<S>& sum) {
  const uint32_t class_first = batch.class_first[with.cls];
  const uint32_t tile = (segment.begin - class_first) / kTile;
  const uint32_t spans = (segment.end - 1 - class_first) / kTile - tile + 1;
  const uint32_t slot = class_first / kTile + tile;
  float* partial = with.partials + static_cast<int64_t>(tile) * S::kFloats;
  for_each_chunk<S>(member, dim, [&](int c, int d) {
    if constexpr (S::kVector == 4) {
      const auto& v = sum.chunk[c].at;
      atomicAdd(reinterpret_cast<float4*>(partial + d), float4{v[0], v[1], v[2], v[3]});
    } else {
      atomicAdd(partial + d, sum.chunk[c].at[0]);
    }
  });
  __threadfence();
  __syncwarp(group_mask<S>());
  uint32_t arrived = 0;
  if (member == 0) arrived = atomicAdd(&with.arrivals[slot], 1u);
  arrived = __shfl_sync(group_mask<S>(), arrived, 0, S::kLanes);
  if (arrived + 1 != spans) return false;
  __threadfence();
  if (member == 0) with.arrivals[slot] = 0;
  for_each_chunk<S>(member, dim, [&](int c, int d) {
#pragma unroll
    for (int v = 0; v < S::kVector; ++v) {
      sum.chunk[c].at[v] = __ldcg(partial + d + v);
      partial[d + v] = 0.0f;
    }
  });
  return true;
}

// A group of lanes takes a tile of occurrences, a few at a time: their gradients and the rows that
// end among them are all on their way before the first is used.
template <class S, class Finish>
__global__ void __launch_bounds__(kThreads)
    update_rows_kernel(const __grid_constant__ BatchRef batch, TileArguments with, Finish finish) {
  constexpr int kBatch = S::kChunks > 1 ? 1 : 4;
  constexpr int kGroups = kThreads / S::kLanes;
  const int member = threadIdx.x % S::kLanes;
  const uint32_t class_first = batch.class_first[with.cls];
  const uint32_t tile = blockIdx.x * kGroups + threadIdx.x / S::kLanes;
  const uint32_t begin = class_first + tile * kTile;
  const uint32_t end = min(begin + kTile, class_first + batch.counters->occurrences[with.cls]);
  if (begin >= end) return;
  const uint32_t first_unique = batch.occurrences[begin].unique;
  const bool from_before = batch.segments[first_unique].begin < begin;
  const bool goes_on = batch.segments[batch.occurrences[end - 1].unique].end > end;

  Share<S> sum{};
#pragma unroll 1
  for (uint32_t at = begin; at < end; at += kBatch) {
    Occurrence of[kBatch];
    bool here[kBatch], last[kBatch], whole[kBatch];
    Share<S> gradients[kBatch];
    typename Finish::Row rows[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      here[i] = at + i < end;
      const uint4 raw = __ldg(reinterpret_cast<const uint4*>(&batch.occurrences[here[i] ? at + i : end - 1]));
      of[i] = {raw.x, raw.y, raw.z, raw.w};
    }
    const uint32_t next = at + kBatch < end ? __ldg(&batch.occurrences[at + kBatch].unique) : kNoRow;
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const DeviceTableRef& table = batch.tables[of[i].table];
      if (here[i]) {
        for_each_chunk<S>(member, table.dim, [&](int c, int d) {
          gradients[i].chunk[c] = load_floats<S::kVector>(with.gradients + of[i].source + d);
        });
      }
      const uint32_t after = i + 1 < kBatch ? (here[i + 1] ? of[i + 1].unique : kNoRow) : next;
      last[i] = here[i] && after != of[i].unique;
      whole[i] = last[i] && !(from_before && of[i].unique == first_unique) &&
                 !(goes_on && at + i + 1 == end);
      if (whole[i]) rows[i] = row_for(finish, table, table.row(of[i].row), member);
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (!here[i]) break;
      const DeviceTableRef& table = batch.tables[of[i].table];
      const float coefficient =
          batch.sorted_coefficients != nullptr ? batch.sorted_coefficients[at + i] : 1.0f;
      for_each_chunk<S>(member, table.dim, [&](int c, int) {
#pragma unroll
        for (int v = 0; v < S::kVector; ++v)
          sum.chunk[c].at[v] += coefficient * gradients[i].chunk[c].at[v];
      });
      if (!last[i]) continue;
      char* row = table.row(of[i].row);
      if (whole[i]) {
        finish(table, row, member, sum, rows[i]);
      } else if (add_partial<S>(batch, with, batch.segments[of[i].unique], member, table.dim, sum)) {
        auto share = row_for(finish, table, row, member);
        finish(table, row, member, sum, share);
      }
      sum = {};
    }
  }
}

template <class S, class Finish>
void launch(const Context& context, const BatchRef& batch, const UpdateRows& op, Finish finish) {
  constexpr uint32_t kPerBlock = kTile * (kThreads / S::kLanes);
  const TileArguments with{op.gradients, op.partials, op.arrivals, op.cls};
  update_rows_kernel<S><<<(op.most + kPerBlock - 1) / kPerBlock, kThreads, 0, context.stream>>>(
      batch, with, finish);
  cuda_check(cudaGetLastError(), "launching update_rows_kernel");
}

// A warp a row.
template <class S, class R>
__global__ void __launch_bounds__(kThreads)
    update_other_rows_kernel(const DeviceTableRef* of, Apply<S, R> apply) {
  const DeviceTableRef& table = *of;
  constexpr int kGroups = kThreads / S::kLanes;
  const int member = threadIdx.x % S::kLanes;
  const uint32_t row = blockIdx.x * kGroups + threadIdx.x / S::kLanes;
  const auto rows = table.is_static() ? static_cast<uint32_t>(table.capacity) : table.keys.counters->fresh;
  if (row >= rows) return;
  if (static_cast<uint32_t>(*table.mark(row) >> 32) == static_cast<uint32_t>(table.clocks->version))
    return;
  if (!table.is_static() && table.keys.meta[row].score == kUnusedScore) return;
  Share<S> nothing{};
  auto share = load_row<S, R>(table, table.row(row), member);
  apply(table, table.row(row), member, nothing, share);
}

}  // namespace

void update_rows(const Context& context, const BatchRef& batch, const UpdateRows& op) {
  if (op.most == 0) return;
  with_shape(op.shape, [&](auto as) {
    using S = decltype(as);
    std::visit(
        [&](const auto& rule) {
          using R = std::decay_t<decltype(rule)>;
          launch<S>(context, batch, op, Apply<S, R>{rule, op.scale, op.l2});
        },
        op.rule);
  });
}

void add_squared_norm(const Context& context, const BatchRef& batch, const UpdateRows& op,
                      double* sum) {
  if (op.most == 0) return;
  with_shape(op.shape, [&](auto as) {
    using S = decltype(as);
    launch<S>(context, batch, op, AddSquare<S>{sum});
  });
}

void update_other_rows(const Context& context, const DeviceTableRef* table, int64_t rows,
                       const UpdateRows& op) {
  if (rows == 0) return;
  with_shape(op.shape, [&](auto as) {
    using S = decltype(as);
    constexpr int kGroups = kThreads / S::kLanes;
    std::visit(
        [&](const auto& rule) {
          using R = std::decay_t<decltype(rule)>;
          update_other_rows_kernel<S, R>
              <<<static_cast<unsigned>((rows + kGroups - 1) / kGroups), kThreads, 0,
                 context.stream>>>(table, Apply<S, R>{rule, op.scale, op.l2});
        },
        op.rule);
  });
  cuda_check(cudaGetLastError(), "launching update_other_rows_kernel");
}

int64_t partial_floats(RowShape shape) {
  int64_t floats = 0;
  with_shape(shape, [&](auto as) { floats = decltype(as)::kFloats; });
  return floats;
}

}  // namespace emblem::cuda
