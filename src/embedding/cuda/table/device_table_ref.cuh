// embedding/cuda/table/device_table_ref.cuh - a table on the GPU as kernels see it.
#pragma once

#include "embedding/cuda/table/key_space.cuh"
#include "embedding/row_share.h"
#include "embedding/settings.h"
#include "embedding/transfer/staging_buffer_ref.h"

namespace emblem::cuda {

// The clocks of a table, in device memory, where captured steps advance them.
struct TableClocks {
  int64_t clock;
  int64_t next_score;
  int64_t version;     // training passes so far
  int64_t staged;      // with a cache: distinct rows of all passes ...
  int64_t missed;      // ... and those of them that were not cached
  int64_t prefetched;  // rows copied ahead of their pass
};

// Errors of kernels, in host memory; thrown by the next call.
struct TableErrors {
  unsigned long long full;       // new keys that found no row, with no row to evict
  unsigned long long overfull;   // 0, or the first bin with too many keys of a batch (overfull_bin)
  unsigned long long outside;    // keys outside a static table, ...
  int64_t outside_key;           // ... and one of them
  unsigned long long uncounted;  // keys that could not be counted for admission

  static constexpr int kKeyBits = 40;
  EMBLEM_HD static unsigned long long overfull_bin(uint32_t bin, uint32_t keys) {
    return (bin + 1ull) << kKeyBits | keys;
  }
};

// The slots of a cache of rows in device memory.
struct CacheRef {
  uint32_t* rows = nullptr;    // [slots] row number, or kNoRow
  uint32_t* used = nullptr;    // [slots] version of the last pass that used it, 0: never
  uint8_t* changed = nullptr;  // [slots] the row in host memory is out of date
  uint32_t count = 0;
};

struct DeviceTableRef {
  KeySpace keys;     // keys of dynamic tables
  KeySpace waiting;  // keys that are not admitted yet; their score is how often they came
  unsigned long long* marks = nullptr;  // marks of static tables; others keep them in keys.meta
  TableClocks* clocks = nullptr;
  TableErrors* errors = nullptr;

  char* rows = nullptr;       // or the slots of the cache
  char* host_rows = nullptr;  // with a cache: all rows, in pinned host memory
  CacheRef cache;
  uint32_t* slots = nullptr;          // with a cache: the slot of a row, or kNoRow
  TransferCount* scatters = nullptr;  // with a cache: scatter requests, ...
  uint64_t* scattered = nullptr;      // ... and the completed ones, in host memory
  int64_t stride = 0;                 // bytes from row to row
  int64_t state_offset = 0;           // bytes from weights to state
  int32_t dim = 0;
  int32_t first_column = 0;  // first column of a slice of columns
  int32_t state_floats = 0;
  DType dtype = DType::kF32;
  float first_state = 0.0f;

  TableKind kind = TableKind::kStatic;
  Eviction eviction = Eviction::kNone;
  int64_t capacity = 0;  // rows of a static table here. 0: no limit but memory
  PartRange held;        // parts whose rows a static table has here (embedding/row_share.h)
  int64_t keys_end = 0;  // end of the keys of a static table
  int64_t admission_threshold = 0;
  int64_t admission_capacity = 0;  // limit of a bin
  Initializer initializer;
  Initializer missing;
  uint64_t seed = 0;
  bool updates_all_rows = false;  // every backward pass changes rows outside the batch too

  __device__ char* row(uint32_t number) const {
    const uint32_t slot = slots != nullptr ? slots[number] : number;
    return slot != kNoRow ? rows + slot * stride : host_rows + number * stride;
  }
  __device__ float* state(char* row) const { return reinterpret_cast<float*>(row + state_offset); }
  __device__ bool is_static() const { return kind == TableKind::kStatic; }
  __device__ unsigned long long* mark(uint32_t row) const {
    return is_static() ? marks + row : &keys.meta[row].mark;
  }

  __device__ int64_t key_of_static_row(int64_t row) const {
    return held.first == 0 && held.last == kParts ? row : key_of_local_row(row, held);
  }

  // The row of a key, or kNoRow. Of a static table with some of its parts: of a local row.
  __device__ uint32_t find_if_present(int64_t key) const {
    if (!is_static()) return keys.find(key);
    const bool inside = static_cast<uint64_t>(key) < static_cast<uint64_t>(capacity);
    return inside ? static_cast<uint32_t>(key) : kNoRow;
  }
  // The same; reports keys outside a static table as errors.
  __device__ uint32_t find(int64_t key) const {
    const uint32_t row = find_if_present(key);
    if (row == kNoRow && is_static()) {
      atomicAdd(&errors->outside, 1ull);
      errors->outside_key = key;
    }
    return row;
  }
};

// A weight of a row whose storage type is known only at run time; for rows that are rarely read.
__device__ inline float read_weight(const DeviceTableRef& table, const char* row, int64_t d) {
  if (table.dtype == DType::kF16) return load_weight(reinterpret_cast<const F16*>(row) + d);
  if (table.dtype == DType::kBf16) return load_weight(reinterpret_cast<const Bf16*>(row) + d);
  return reinterpret_cast<const float*>(row)[d];
}
__device__ inline void write_weight(const DeviceTableRef& table, char* row, int64_t d,
                                    float value) {
  if (table.dtype == DType::kF16)
    store_weight(reinterpret_cast<F16*>(row) + d, value);
  else if (table.dtype == DType::kBf16)
    store_weight(reinterpret_cast<Bf16*>(row) + d, value);
  else
    reinterpret_cast<float*>(row)[d] = value;
}

// A new row, written by a whole warp.
__device__ inline void initialize_row(const DeviceTableRef& table, char* row, int64_t key) {
  const int lane = threadIdx.x % 32;
  for (int64_t d = lane; d < table.dim; d += 32) {
    write_weight(table, row, d, table.initializer(table.seed, static_cast<uint64_t>(key), d));
  }
  for (int64_t d = lane; d < table.state_floats; d += 32) table.state(row)[d] = table.first_state;
}

}  // namespace emblem::cuda
