#include "embedding/update_rows.h"

#include <algorithm>
#include <type_traits>

#include "core/cuda_check.h"
#include "embedding/row_ring.cuh"
#include "embedding/sum_in_order.h"

namespace emblem::cuda {
namespace {

constexpr int kThreads = kRingThreads;
constexpr int kMostInTile = 64;  // occurrences

// Rows of up to 128 floats are updated by half a warp: what an occurrence costs beside its bytes is
// then paid once for two.
template <class Body>
void with_update_shape(RowShape shape, Body&& body) {
  if (shape == RowShape::kUpTo128) return body(Shape<16, 4, 2>{});
  with_shape(shape, body);
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

// The rule with the values of the step.
template <class R>
__device__ R with_values(R rule, const StepValues& values) {
  rule.learning_rate = values.learning_rate;
  if constexpr (std::is_same_v<R, Adam>) {
    rule.correction1 = values.correction1;
    rule.correction2 = values.correction2;
  }
  if constexpr (std::is_same_v<R, Momentum>) rule.dampening = values.dampening;
  return rule;
}

// What is done with the summed gradient of a row.
template <class S, class R_>
struct Apply {
  using R = R_;
  R given_rule;
  float given_scale, l2;
  const StepValues* values;  // or null: the given ones

  __device__ void operator()(const RowsOf& table, char* row, int member, Share<S>& sum,
                             RowShare<S, R>& share) const {
    const float scale = values != nullptr ? values->scale : given_scale;
    const R rule = values != nullptr ? with_values(given_rule, *values) : given_rule;
    float square = 0.0f;
    for_each_chunk<S>(member, table.dim, [&](int c, int) {
#pragma unroll
      for (int v = 0; v < S::kVector; ++v) {
        float& g = sum.chunk[c].at[v];
        g = l2 == 0.0f ? scale * g : scale * g + l2 * share.weights.chunk[c].at[v];
        square += g * g;
      }
    });
    float factor = 0.0f;
    if constexpr (R::kRowWise)
      factor =
          rule.factor(sum_of_group<S>(square) / static_cast<float>(table.dim), &share.row_state);
    for_each_chunk<S>(member, table.dim, [&](int c, int) {
#pragma unroll
      for (int v = 0; v < S::kVector; ++v) {
        float& w = share.weights.chunk[c].at[v];
        if constexpr (R::kRowWise) {
          w -= factor * sum.chunk[c].at[v];
        } else {
          float states[R::kStates > 0 ? R::kStates : 1];
#pragma unroll
          for (int s = 0; s < R::kStates; ++s) states[s] = share.states[s].chunk[c].at[v];
          rule(sum.chunk[c].at[v], w, states, 1);
#pragma unroll
          for (int s = 0; s < R::kStates; ++s) share.states[s].chunk[c].at[v] = states[s];
        }
      }
    });
    store_row<S, R>(table, row, member, share);
  }
};

template <class S>
struct AddSquare {
  using R = void;
  double* total;
  float* squares;  // or null: any order will do

  // `first`: position of the row's first occurrence, with squares.
  __device__ void operator()(const RowsOf& table, int member, Share<S>& sum, uint32_t first) const {
    float square = 0.0f;
    for_each_chunk<S>(member, table.dim, [&](int c, int) {
      for (int v = 0; v < S::kVector; ++v) square += sum.chunk[c].at[v] * sum.chunk[c].at[v];
    });
    square = sum_of_group<S>(square);
    if (member != 0) return;
    if (squares != nullptr)
      squares[first] = square;
    else
      atomicAdd(total, static_cast<double>(square));
  }
};

struct TileArguments {
  Gradients gradients;
  float* partials;
  uint32_t* arrivals;
  int cls;
  uint32_t tile;                        // occurrences that a group takes
  const uint32_t* positions = nullptr;  // of occurrences, with AddSquare::squares
};

// A group's part in a row whose occurrences lie in several tiles: whoever comes last has the sum.
template <class S>
__device__ bool add_partial(const BatchRef& batch, const TileArguments& with, Segment segment,
                            int member, int dim, Share<S>& sum) {
  const uint32_t class_first = batch.class_first[with.cls];
  const uint32_t tile = (segment.begin - class_first) / with.tile;
  const uint32_t spans = (segment.end - 1 - class_first) / with.tile - tile + 1;
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
  if (member == 0) arrived = atomicAdd(&with.arrivals[tile], 1u);
  arrived = __shfl_sync(group_mask<S>(), arrived, 0, S::kLanes);
  if (arrived + 1 != spans) return false;
  __threadfence();
  if (member == 0) with.arrivals[tile] = 0;
  for_each_chunk<S>(member, dim, [&](int c, int d) {
#pragma unroll
    for (int v = 0; v < S::kVector; ++v) {
      sum.chunk[c].at[v] = __ldcg(partial + d + v);
      partial[d + v] = 0.0f;
    }
  });
  return true;
}

// A group's tile of occurrences, in shared memory, and which of them end a segment here.
struct Tile {
  const Occurrence* at;
  int count;
  bool from_before;  // the first segment has occurrences in earlier tiles
  bool goes_on;      // the last one in later tiles

  __device__ bool ends(int i) const { return i + 1 == count || at[i + 1].unique != at[i].unique; }
  // Whether occurrence i ends a segment that is in this tile alone.
  __device__ bool ends_whole(int i) const {
    return ends(i) && !(from_before && at[i].unique == at[0].unique) &&
           !(goes_on && i + 1 == count);
  }
};

// A group of lanes takes a tile of occurrences. Their gradients, and the rows of those that end a
// segment, are on their way to shared memory several occurrences ahead.
template <class S, class Finish>
__global__ void __launch_bounds__(kThreads)
    update_rows_kernel(const __grid_constant__ BatchRef batch, TileArguments with, Finish finish) {
  using Rows = Ring<S, typename Finish::R>;
  constexpr int kGroups = kThreads / S::kLanes;
  __shared__ Occurrence staged[kGroups][kMostInTile];
  extern __shared__ __align__(16) char dynamic[];
  auto* tables = reinterpret_cast<RowsOf*>(dynamic + Rows::kBytes);
  Rows ring(dynamic);
  for (int t = threadIdx.x; t < batch.table_count; t += kThreads)
    tables[t] = rows_of(batch.tables[t]);
  const int member = threadIdx.x % S::kLanes, group = threadIdx.x / S::kLanes;
  const uint32_t class_first = batch.class_first[with.cls];
  const uint32_t begin = class_first + (blockIdx.x * kGroups + group) * with.tile;
  // The pass has been moved on by the end of forward.
  const uint32_t all = batch.counters->occurrences[(batch.counters->pass + 1) & 1][with.cls];
  const int count =
      static_cast<int>(min(begin + with.tile, class_first + all)) - static_cast<int>(begin);
  __syncthreads();
  for (int i = member; i < count; i += S::kLanes) {
    Occurrence of = batch.occurrences[begin + i];
    of.row = tables[of.table].place(of.row);
    staged[group][i] = of;
  }
  __syncwarp();
  if (count <= 0) return;
  Tile tile{staged[group], count, false, false};
  tile.from_before = batch.segments[tile.at[0].unique].begin < begin;
  tile.goes_on = batch.segments[tile.at[count - 1].unique].end > begin + count;
  const auto fetch = [&](int i) {
    if (i < count) {
      const Occurrence of = tile.at[i];
      const RowsOf& table = tables[of.table];
      ring.fetch_gradient(i % Rows::kStages, table, with.gradients, of.source, member);
      if (Rows::kRows && tile.ends_whole(i))
        ring.fetch_row(i % Rows::kStages, table, table.row_at(of.row), member);
    }
    __pipeline_commit();
  };
  for (int i = 0; i + 1 < Rows::kStages; ++i) fetch(i);
  Share<S> sum{};
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    fetch(i + Rows::kStages - 1);
    __pipeline_wait_prior(Rows::kStages - 1);
    const Occurrence of = tile.at[i];
    const RowsOf& table = tables[of.table];
    const int stage = i % Rows::kStages;
    const float coefficient =
        batch.sorted_coefficients != nullptr ? batch.sorted_coefficients[begin + i] : 1.0f;
    for_each_chunk<S>(member, table.dim, [&](int c, int) {
      const Floats<S::kVector> gradient = ring.gradient(stage, c, with.gradients.dtype);
#pragma unroll
      for (int v = 0; v < S::kVector; ++v) sum.chunk[c].at[v] += coefficient * gradient.at[v];
    });
    if (!tile.ends(i)) continue;
    const bool whole = tile.ends_whole(i);
    if (whole || add_partial<S>(batch, with, batch.segments[of.unique], member, table.dim, sum)) {
      if constexpr (Rows::kRows) {
        char* row = table.row_at(of.row);
        if (!whole) {  // nobody has fetched it
          ring.fetch_row(stage, table, row, member);
          __pipeline_commit();
          __pipeline_wait_prior(0);
        }
        auto share = ring.row(stage, table, member);
        finish(table, row, member, sum, share);
      } else {
        finish(table, member, sum, 0);
      }
    }
    sum = {};
  }
}

constexpr uint32_t kChunk = 256;  // occurrences that are summed one after the other

// A group takes the chunk that begins at its occurrence, if one does. Chunks are counted from the
// beginning of their segment, and the sums of a segment's chunks added in order.
template <class S, class Finish>
__global__ void __launch_bounds__(kThreads)
    update_in_order_kernel(const __grid_constant__ BatchRef batch, TileArguments with,
                           Finish finish) {
  using Rows = Ring<S, typename Finish::R>;
  extern __shared__ __align__(16) char dynamic[];
  constexpr int kGroups = kThreads / S::kLanes;
  const int member = threadIdx.x % S::kLanes;
  const uint32_t class_first = batch.class_first[with.cls];
  const uint32_t all = batch.counters->occurrences[(batch.counters->pass + 1) & 1][with.cls];
  const uint32_t at = class_first + blockIdx.x * kGroups + threadIdx.x / S::kLanes;
  if (at >= class_first + all) return;
  const Occurrence of = batch.occurrences[at];
  const Segment segment = batch.segments[of.unique];
  const uint32_t offset = at - segment.begin;
  if (offset % kChunk != 0) return;
  const RowsOf table = rows_of(batch.tables[of.table]);
  const uint32_t end = min(segment.end, at + kChunk);
  Share<S> sum{};
  for_each_chunk<S>(member, table.dim, [&](int c, int d) {
#pragma unroll 4
    for (uint32_t i = at; i < end; ++i) {
      const float coefficient =
          batch.sorted_coefficients != nullptr ? batch.sorted_coefficients[i] : 1.0f;
      const auto gradient = with.gradients.load<S::kVector>(batch.occurrences[i].source + d);
      for (int v = 0; v < S::kVector; ++v) sum.chunk[c].at[v] += coefficient * gradient.at[v];
    }
  });
  const uint32_t chunks = (segment.end - segment.begin + kChunk - 1) / kChunk;
  if (chunks > 1) {
    // A window of kChunk occurrences has at most one chunk that begins a long segment, and one that
    // does not: so every chunk has a place of its own.
    const auto place = [&](uint32_t chunk) {
      const uint32_t begin = segment.begin - class_first + chunk * kChunk;
      return with.partials + (2 * static_cast<int64_t>(begin / kChunk) + (chunk == 0)) * S::kFloats;
    };
    float* mine = place(offset / kChunk);
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
      float* from = place(chunk);
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
    char* row = table.row_at(table.place(of.row));
    ring.fetch_row(0, table, row, member);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    auto share = ring.row(0, table, member);
    finish(table, row, member, sum, share);
  } else {
    finish(table, member, sum, with.positions[segment.begin]);
  }
}

template <class S, class Finish>
void launch(const Context& context, const BatchRef& batch, const UpdateRows& op, Finish finish) {
  if (op.in_order) {
    constexpr int kShared = Ring<S, typename Finish::R>::kSlotBytes * kThreads;
    constexpr uint32_t kGroups = kThreads / S::kLanes;
    cuda_check(cudaFuncSetAttribute(update_in_order_kernel<S, Finish>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, kShared),
               "asking for shared memory");
    update_in_order_kernel<S>
        <<<(op.most + kGroups - 1) / kGroups, kThreads, kShared, context.stream>>>(
            batch,
            {{op.gradients, op.gradient_type},
             op.partials,
             op.arrivals,
             op.cls,
             0,
             op.positions},
            finish);
    cuda_check(cudaGetLastError(), "launching update_in_order_kernel");
    return;
  }
  const uint32_t tile = update_tile(op.most), per_block = tile * (kThreads / S::kLanes);
  const TileArguments with{
      {op.gradients, op.gradient_type}, op.partials, op.arrivals, op.cls, tile};
  const size_t shared = Ring<S, typename Finish::R>::kBytes + batch.table_count * sizeof(RowsOf);
  cuda_check(
      cudaFuncSetAttribute(update_rows_kernel<S, Finish>,
                           cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)),
      "asking for shared memory");
  update_rows_kernel<S>
      <<<(op.most + per_block - 1) / per_block, kThreads, shared, context.stream>>>(batch, with,
                                                                                    finish);
  cuda_check(cudaGetLastError(), "launching update_rows_kernel");
}

// A group of lanes a row.
template <class S, class R>
__global__ void __launch_bounds__(kThreads)
    update_other_rows_kernel(const DeviceTableRef* of, Apply<S, R> apply) {
  const DeviceTableRef& table = *of;
  constexpr int kGroups = kThreads / S::kLanes;
  const int member = threadIdx.x % S::kLanes;
  const auto rows =
      table.is_static() ? static_cast<uint32_t>(table.capacity) : table.keys.counters->fresh;
  const auto version = static_cast<uint32_t>(table.clocks->version);
  extern __shared__ __align__(16) char dynamic[];
  Ring<S, R> ring(dynamic);
  const RowsOf rows_here = rows_of(table);
  // A captured pass may find more rows than when it was captured.
  for (uint32_t row = blockIdx.x * kGroups + threadIdx.x / S::kLanes; row < rows;
       row += gridDim.x * kGroups) {
    if (static_cast<uint32_t>(*table.mark(row) >> 32) == version) continue;
    if (!table.is_static() && table.keys.meta[row].score == kUnusedScore) continue;
    char* at = rows_here.row_at(rows_here.place(row));
    ring.fetch_row(0, rows_here, at, member);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    Share<S> nothing{};
    auto share = ring.row(0, rows_here, member);
    apply(rows_here, at, member, nothing, share);
  }
}

}  // namespace

void update_rows(const Context& context, const BatchRef& batch, const UpdateRows& op) {
  if (op.most == 0) return;
  with_update_shape(op.shape, [&](auto as) {
    using S = decltype(as);
    std::visit(
        [&](const auto& rule) {
          using R = std::decay_t<decltype(rule)>;
          launch<S>(context, batch, op, Apply<S, R>{rule, op.scale, op.l2, op.values});
        },
        op.rule);
  });
}

void add_squared_norm(const Context& context, const BatchRef& batch, const UpdateRows& op,
                      double* sum) {
  if (op.most == 0) return;
  float* squares = op.in_order ? op.squares : nullptr;
  const uint32_t first = batch.class_first[op.cls];
  if (squares != nullptr)
    cuda_check(cudaMemsetAsync(squares + first, 0, op.most * sizeof(float), context.stream),
               "zeroing");
  with_update_shape(op.shape, [&](auto as) {
    using S = decltype(as);
    launch<S>(context, batch, op, AddSquare<S>{sum, squares});
  });
  if (squares != nullptr) add_in_order(context, squares + first, op.most, sum);
}

void update_other_rows(const Context& context, const DeviceTableRef* table, int64_t rows,
                       const UpdateRows& op) {
  if (rows == 0) return;
  with_update_shape(op.shape, [&](auto as) {
    using S = decltype(as);
    constexpr int kGroups = kThreads / S::kLanes;
    std::visit(
        [&](const auto& rule) {
          using R = std::decay_t<decltype(rule)>;
          constexpr int kShared = Ring<S, R>::kSlotBytes * kThreads;  // one stage
          cuda_check(cudaFuncSetAttribute(update_other_rows_kernel<S, R>,
                                          cudaFuncAttributeMaxDynamicSharedMemorySize, kShared),
                     "asking for shared memory");
          update_other_rows_kernel<S, R>
              <<<static_cast<unsigned>((rows + kGroups - 1) / kGroups), kThreads, kShared,
                 context.stream>>>(table, Apply<S, R>{rule, op.scale, op.l2, op.values});
        },
        op.rule);
  });
  cuda_check(cudaGetLastError(), "launching update_other_rows_kernel");
}

// Small batches are cut finer, so that all of the GPU has work; large ones coarser, because the
// beginning and the end of a tile wait for memory several times.
uint32_t update_tile(uint32_t occurrences) {
  if (occurrences <= 1 << 17) return 8;
  if (occurrences <= 1 << 18) return 16;
  return occurrences <= 1 << 20 ? 32 : kMostInTile;
}

int64_t partial_floats(RowShape shape) {
  int64_t floats = 0;
  with_update_shape(shape, [&](auto as) { floats = decltype(as)::kFloats; });
  return floats;
}

}  // namespace emblem::cuda
