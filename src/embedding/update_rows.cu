#include "embedding/update_rows.h"

#include <cuda_pipeline.h>

#include <algorithm>
#include <type_traits>

#include "core/cuda_check.h"
#include "embedding/device_batch.cuh"
#include "embedding/row_vector.cuh"

namespace emblem::cuda {
namespace {

constexpr int kThreads = 128;

// What an update needs of a table.
struct RowsOf {
  char* rows;
  char* host_rows;        // of tables with a cache
  const uint32_t* slots;  // of tables with a cache: where rows are in it
  int64_t stride;
  int32_t state_offset;
  int32_t dim;
  DType dtype;

  // Where a row is, for row_at: the number of its slot, or, in host memory, its own with kFar.
  __device__ uint32_t place(uint32_t row) const {
    if (slots == nullptr) return row;
    const uint32_t slot = slots[row];
    return slot != kNoRow ? slot : row | kFar;
  }
  __device__ char* row_at(uint32_t place) const {
    return slots != nullptr && (place & kFar) != 0 ? host_rows + (place & ~kFar) * stride
                                                   : rows + place * stride;
  }
  static constexpr uint32_t kFar = 1u << 31;  // tables with a cache have fewer rows

  __device__ float* state(char* row) const { return reinterpret_cast<float*>(row + state_offset); }
};
__device__ RowsOf rows_of(const DeviceTableRef& table) {
  return {table.rows,
          table.host_rows,
          table.slots,
          table.stride,
          static_cast<int32_t>(table.state_offset),
          table.dim,
          table.dtype};
}

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

// Weights and optimizer state of a row, in registers. Row-wise state is one float for the whole
// row.
template <class S, class R>
struct RowShare {
  static constexpr int kPlanes = R::kRowWise ? 0 : R::kStates;
  Share<S> weights;
  Share<S> states[kPlanes > 0 ? kPlanes : 1];
  float row_state;
};

template <class S, class R>
__device__ void store_row(const RowsOf& table, char* row, int member, const RowShare<S, R>& share) {
  for_each_chunk<S>(member, table.dim, [&](int c, int d) {
    const Floats<S::kVector>& w = share.weights.chunk[c];
    if (table.dtype == DType::kF32)
      store_floats<S::kVector>(reinterpret_cast<float*>(row) + d, w);
    else if (table.dtype == DType::kF16)
      store_floats<S::kVector>(reinterpret_cast<F16*>(row) + d, w);
    else
      store_floats<S::kVector>(reinterpret_cast<Bf16*>(row) + d, w);
#pragma unroll
    for (int s = 0; s < RowShare<S, R>::kPlanes; ++s)
      store_floats<S::kVector>(table.state(row) + s * table.dim + d, share.states[s].chunk[c]);
  });
  if (R::kRowWise && member == 0) table.state(row)[0] = share.row_state;
}

// Rows and gradients on their way to shared memory. Each lane fetches what it alone will use, so
// lanes need not wait for each other.
template <class S, class R>
class Ring {
 public:
  static constexpr bool kRows = !std::is_void_v<R>;
  static constexpr int kStates = [] {
    if constexpr (kRows) return R::kStates;
    return 0;
  }();
  static constexpr int kPieces = 1 + (kRows ? 1 + kStates : 0);
  static constexpr int kSlotBytes = kPieces * S::kChunks * S::kVector * 4;  // a lane
  static constexpr int kStages = std::clamp(256 / kSlotBytes, 2, 8);
  static constexpr int kBytes = kStages * kSlotBytes * kThreads;

  __device__ explicit Ring(char* shared) : shared_(shared) {}

  __device__ void fetch_gradient(int stage, const RowsOf& table, const float* from, int member) {
    for_each_chunk<S>(member, table.dim, [&](int c, int d) {
      __pipeline_memcpy_async(slot(stage, 0, c), from + d, S::kVector * 4);
    });
  }
  __device__ void fetch_row(int stage, const RowsOf& table, char* row, int member) {
    if constexpr (kRows) {
      for_each_chunk<S>(member, table.dim, [&](int c, int d) {
        if (table.dtype == DType::kF32) {
          __pipeline_memcpy_async(slot(stage, 1, c), reinterpret_cast<float*>(row) + d,
                                  S::kVector * 4);
        } else if (S::kVector == 4) {
          __pipeline_memcpy_async(slot(stage, 1, c), row + d * 2, 8);
        } else {  // two bytes cannot be fetched alone
          *reinterpret_cast<uint16_t*>(slot(stage, 1, c)) =
              *reinterpret_cast<const uint16_t*>(row + d * 2);
        }
        if constexpr (!R::kRowWise) {
#pragma unroll
          for (int s = 0; s < kStates; ++s)
            __pipeline_memcpy_async(slot(stage, 2 + s, c), table.state(row) + s * table.dim + d,
                                    S::kVector * 4);
        }
      });
      if constexpr (R::kRowWise) __pipeline_memcpy_async(slot(stage, 2, 0), table.state(row), 4);
    }
  }

  __device__ Floats<S::kVector> gradient(int stage, int chunk) const {
    return floats(stage, 0, chunk);
  }
  __device__ auto row(int stage, const RowsOf& table, int member) const {
    RowShare<S, R> share;
    for_each_chunk<S>(member, table.dim, [&](int c, int) {
      if (table.dtype == DType::kF32)
        share.weights.chunk[c] = floats(stage, 1, c);
      else if (table.dtype == DType::kF16)
        share.weights.chunk[c] = halves<F16>(slot(stage, 1, c));
      else
        share.weights.chunk[c] = halves<Bf16>(slot(stage, 1, c));
#pragma unroll
      for (int s = 0; s < RowShare<S, R>::kPlanes; ++s)
        share.states[s].chunk[c] = floats(stage, 2 + s, c);
    });
    if constexpr (R::kRowWise) share.row_state = *reinterpret_cast<const float*>(slot(stage, 2, 0));
    return share;
  }

 private:
  __device__ char* slot(int stage, int piece, int chunk) const {
    return shared_ + (((stage * kPieces + piece) * S::kChunks + chunk) * kThreads + threadIdx.x) *
                         S::kVector * 4;
  }
  __device__ Floats<S::kVector> floats(int stage, int piece, int chunk) const {
    return *reinterpret_cast<const Floats<S::kVector>*>(slot(stage, piece, chunk));
  }
  template <class W>
  __device__ static Floats<S::kVector> halves(const char* from) {
    Floats<S::kVector> v;
#pragma unroll
    for (int i = 0; i < S::kVector; ++i)
      v.at[i] = load_weight(reinterpret_cast<const W*>(from) + i);
    return v;
  }

  char* shared_;
};

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
template <class S, class R_>
struct Apply {
  using R = R_;
  R rule;
  float scale, l2;

  __device__ void operator()(const RowsOf& table, char* row, int member, Share<S>& sum,
                             RowShare<S, R>& share) const {
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

  __device__ void operator()(const RowsOf& table, int member, Share<S>& sum) const {
    float square = 0.0f;
    for_each_chunk<S>(member, table.dim, [&](int c, int) {
      for (int v = 0; v < S::kVector; ++v) square += sum.chunk[c].at[v] * sum.chunk[c].at[v];
    });
    square = sum_of_group<S>(square);
    if (member == 0) atomicAdd(total, static_cast<double>(square));
  }
};

struct TileArguments {
  const float* gradients;
  float* partials;
  uint32_t* arrivals;
  int cls;
  uint32_t tile;  // occurrences that a group takes
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
  __shared__ Occurrence staged[kGroups][kTile];
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
      ring.fetch_gradient(i % Rows::kStages, table, with.gradients + of.source, member);
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
      const Floats<S::kVector> gradient = ring.gradient(stage, c);
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
        finish(table, member, sum);
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
      const auto gradient =
          load_floats<S::kVector>(with.gradients + batch.occurrences[i].source + d);
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
    finish(table, member, sum);
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
            batch, {op.gradients, op.partials, op.arrivals, op.cls, 0}, finish);
    cuda_check(cudaGetLastError(), "launching update_in_order_kernel");
    return;
  }
  const uint32_t tile = update_tile(op.most), per_block = tile * (kThreads / S::kLanes);
  const TileArguments with{op.gradients, op.partials, op.arrivals, op.cls, tile};
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

// A warp a row.
template <class S, class R>
__global__ void __launch_bounds__(kThreads)
    update_other_rows_kernel(const DeviceTableRef* of, Apply<S, R> apply) {
  const DeviceTableRef& table = *of;
  constexpr int kGroups = kThreads / S::kLanes;
  const int member = threadIdx.x % S::kLanes;
  const uint32_t row = blockIdx.x * kGroups + threadIdx.x / S::kLanes;
  const auto rows =
      table.is_static() ? static_cast<uint32_t>(table.capacity) : table.keys.counters->fresh;
  if (row >= rows) return;
  if (static_cast<uint32_t>(*table.mark(row) >> 32) == static_cast<uint32_t>(table.clocks->version))
    return;
  if (!table.is_static() && table.keys.meta[row].score == kUnusedScore) return;
  extern __shared__ __align__(16) char dynamic[];
  Ring<S, R> ring(dynamic);
  const RowsOf rows_here = rows_of(table);
  char* at = rows_here.row_at(rows_here.place(row));
  ring.fetch_row(0, rows_here, at, member);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  Share<S> nothing{};
  auto share = ring.row(0, rows_here, member);
  apply(rows_here, at, member, nothing, share);
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
          constexpr int kShared = Ring<S, R>::kSlotBytes * kThreads;  // one stage
          cuda_check(cudaFuncSetAttribute(update_other_rows_kernel<S, R>,
                                          cudaFuncAttributeMaxDynamicSharedMemorySize, kShared),
                     "asking for shared memory");
          update_other_rows_kernel<S, R>
              <<<static_cast<unsigned>((rows + kGroups - 1) / kGroups), kThreads, kShared,
                 context.stream>>>(table, Apply<S, R>{rule, op.scale, op.l2});
        },
        op.rule);
  });
  cuda_check(cudaGetLastError(), "launching update_other_rows_kernel");
}

// Small batches are cut finer, so that all of the GPU has work.
uint32_t update_tile(uint32_t occurrences) {
  return occurrences <= 1 << 17 ? 8 : occurrences <= 1 << 18 ? 16 : kTile;
}

int64_t partial_floats(RowShape shape) {
  int64_t floats = 0;
  with_shape(shape, [&](auto as) { floats = decltype(as)::kFloats; });
  return floats;
}

}  // namespace emblem::cuda
