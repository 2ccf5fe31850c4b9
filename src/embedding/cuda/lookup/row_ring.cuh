// embedding/cuda/lookup/row_ring.cuh - rows and gradients, prefetched into shared memory for the
// lanes that update them.
#pragma once

#include <cuda_pipeline.h>

#include <algorithm>
#include <type_traits>

#include "embedding/cuda/lookup/device_batch.cuh"
#include "embedding/cuda/table/row_vector.cuh"

namespace emblem::cuda {

inline constexpr int kRingThreads = 128;  // threads of a block

// What an update needs of a table.
struct RowsOf {
  char* rows;
  char* host_rows;        // host rows of tables with a cache
  const uint32_t* slots;  // slots of rows in tables with a cache
  int64_t stride;
  int32_t state_offset;
  int32_t dim;
  int32_t first_column;  // first column of a slice of columns
  DType dtype;

  // Where a row is, for row_at: its slot, or kInHostMemory | row.
  __device__ uint32_t locate(uint32_t row) const {
    if (slots == nullptr) return row;
    const uint32_t slot = slots[row];
    return slot != kNoRow ? slot : row | kInHostMemory;
  }
  __device__ char* row_at(uint32_t location) const {
    return slots != nullptr && (location & kInHostMemory) != 0
               ? host_rows + (location & ~kInHostMemory) * stride
               : rows + location * stride;
  }
  static constexpr uint32_t kInHostMemory = 1u << 31;  // tables with a cache have fewer rows

  __device__ float* state(char* row) const { return reinterpret_cast<float*>(row + state_offset); }
};
__device__ inline RowsOf rows_of(const DeviceTableRef& table) {
  return {table.rows,
          table.host_rows,
          table.slots,
          table.stride,
          static_cast<int32_t>(table.state_offset),
          table.dim,
          table.first_column,
          table.dtype};
}

// Gradients of the output of a lookup.
struct Gradients {
  const void* data;
  DType dtype;

  template <int kVector>
  __device__ Floats<kVector> load(int64_t begin) const {
    if (dtype == DType::kF32) return load_floats<kVector>(static_cast<const float*>(data) + begin);
    if (dtype == DType::kF16) return load_floats<kVector>(static_cast<const F16*>(data) + begin);
    return load_floats<kVector>(static_cast<const Bf16*>(data) + begin);
  }
};

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
  static constexpr int kPlanes = R::kStates;
  Share<S> weights;
  Share<S> states[kPlanes > 0 ? kPlanes : 1];
  float row_state;
};

// Elements of a row whose type is known only when the kernel runs.
template <int kVector>
__device__ void store_weights(DType type, char* row, int d, const Floats<kVector>& w) {
  if (type == DType::kF32)
    store_floats<kVector>(reinterpret_cast<float*>(row) + d, w);
  else if (type == DType::kF16)
    store_floats<kVector>(reinterpret_cast<F16*>(row) + d, w);
  else
    store_floats<kVector>(reinterpret_cast<Bf16*>(row) + d, w);
}

template <class S, class R>
__device__ void store_row(const RowsOf& table, char* row, int member, const RowShare<S, R>& share) {
  for_each_chunk<S>(member, table.dim, [&](int c, int d) {
    store_weights<S::kVector>(table.dtype, row, d, share.weights.chunk[c]);
#pragma unroll
    for (int s = 0; s < RowShare<S, R>::kPlanes; ++s)
      store_floats<S::kVector>(table.state(row) + s * table.dim + d, share.states[s].chunk[c]);
  });
  if (R::kRowWise && member == 0) table.state(row)[R::kStates * table.dim] = share.row_state;
}

// A ring of stages in shared memory. Each lane fetches what only it will use, so lanes need not
// wait for each other. With kMostStages = 1 nothing is fetched ahead, in as little memory as can
// be.
template <class S, class R, int kMostStages = 8>
class Ring {
 public:
  static constexpr bool kRows = !std::is_void_v<R>;
  static constexpr int kStates = [] {
    if constexpr (kRows) return R::kStates;
    return 0;
  }();
  static constexpr bool kRowWise = [] {
    if constexpr (kRows) return R::kRowWise;
    return false;
  }();
  static constexpr int kRowState = 2 + kStates;  // piece
  static constexpr int kPieces = 1 + (kRows ? 1 + kStates + (kRowWise ? 1 : 0) : 0);
  static constexpr int kSlotBytes = kPieces * S::kChunks * S::kVector * 4;  // a lane
  static constexpr int kStages = std::min(kMostStages, std::clamp(256 / kSlotBytes, 2, 8));
  static constexpr int kBytes = kStages * kSlotBytes * kRingThreads;

  __device__ explicit Ring(char* shared) : shared_(shared) {}

  __device__ void fetch_gradient(int stage, const RowsOf& table, const Gradients& from,
                                 int64_t begin, int member) {
    for_each_chunk<S>(member, table.dim, [&](int c, int d) {
      fetch_weights(slot(stage, 0, c), from.data, from.dtype, begin + d);
    });
  }
  __device__ void fetch_row(int stage, const RowsOf& table, char* row, int member) {
    if constexpr (kRows) {
      for_each_chunk<S>(member, table.dim, [&](int c, int d) {
        fetch_weights(slot(stage, 1, c), row, table.dtype, d);
#pragma unroll
        for (int s = 0; s < kStates; ++s)
          __pipeline_memcpy_async(slot(stage, 2 + s, c), table.state(row) + s * table.dim + d,
                                  S::kVector * 4);
      });
      if constexpr (kRowWise)
        __pipeline_memcpy_async(slot(stage, kRowState, 0), table.state(row) + kStates * table.dim,
                                4);
    }
  }

  __device__ Floats<S::kVector> gradient(int stage, int chunk, DType type) const {
    return weights(stage, 0, chunk, type);
  }
  __device__ auto row(int stage, const RowsOf& table, int member) const {
    RowShare<S, R> share;
    for_each_chunk<S>(member, table.dim, [&](int c, int) {
      share.weights.chunk[c] = weights(stage, 1, c, table.dtype);
#pragma unroll
      for (int s = 0; s < RowShare<S, R>::kPlanes; ++s)
        share.states[s].chunk[c] = floats(stage, 2 + s, c);
    });
    if constexpr (kRowWise)
      share.row_state = *reinterpret_cast<const float*>(slot(stage, kRowState, 0));
    return share;
  }

 private:
  __device__ char* slot(int stage, int piece, int chunk) const {
    return shared_ +
           (((stage * kPieces + piece) * S::kChunks + chunk) * kRingThreads + threadIdx.x) *
               S::kVector * 4;
  }
  // kVector elements of a type.
  __device__ static void fetch_weights(char* to, const void* from, DType type, int64_t begin) {
    if (type == DType::kF32) {
      __pipeline_memcpy_async(to, static_cast<const float*>(from) + begin, S::kVector * 4);
    } else if (S::kVector == 4) {
      __pipeline_memcpy_async(to, static_cast<const uint16_t*>(from) + begin, 8);
    } else {  // two bytes cannot be fetched alone
      *reinterpret_cast<uint16_t*>(to) = static_cast<const uint16_t*>(from)[begin];
    }
  }
  __device__ Floats<S::kVector> weights(int stage, int piece, int chunk, DType type) const {
    if (type == DType::kF32) return floats(stage, piece, chunk);
    if (type == DType::kF16) return halves<F16>(slot(stage, piece, chunk));
    return halves<Bf16>(slot(stage, piece, chunk));
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

}  // namespace emblem::cuda
