// embedding/cache/cached_rows.h - the addresses of the rows of a batch: in a cache on the GPU, or
// in a staging area for this batch. CUDA builds only.
//
// Rows in the cache are not copied: kernels that compute with them read them there. All passes are
// asynchronous, allocate nothing and can be captured in a CUDA graph.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "core/math/half.h"
#include "core/memory/buffer.h"
#include "embedding/cache/row_cache.h"
#include "embedding/settings.h"

namespace emblem::cuda {

// Instead of a key: the row of the batch has no value for the feature.
inline constexpr int64_t kNoKey = std::numeric_limits<int64_t>::min();

// The input of a pass, in device memory, filled before it runs.
struct KeysOnDevice {
  const uint32_t* rows = nullptr;  // rows of the batch; rows beyond get a row of zeros
  const int64_t* keys =
      nullptr;  // [positions], see CachedRows::find; kNoKey gets a row of zeros too
};

// A table whose rows are cached.
struct BackingTable {
  int64_t dim = 0;
  Initializer missing = {Initializer::Kind::kConstant, 0.0f, 0.0f};  // values of keys without a row
  uint64_t seed = 1;
  // Pinned host memory from which the GPU reads the row of key k, at rows + k * row_bytes, for k <
  // count. Null: the misses of a pass are reported, and read as `missing` until they are inserted.
  const char* rows = nullptr;
  int64_t count = 0;
};

// The misses of a pass, in pinned host memory.
struct MissReport {
  uint32_t lookups = 0;   // that missed
  uint32_t distinct = 0;  // keys of them
  uint32_t absent = 0;    // lookups of keys without a row, where that is known
};

struct CachedRowsSettings {
  RowCache* cache = nullptr;         // borrowed; shared by any number of these
  DType dtype = DType::kF32;         // type of the rows
  std::vector<BackingTable> tables;  // those of the cache
  std::vector<int> features;         // the table of each; at most one key per row of the batch
  int64_t max_rows = 0;              // limit of rows of a batch
};

// Used by one thread, on one stream at a time.
class CachedRows {
 public:
  CachedRows(const Context& context, CachedRowsSettings settings);
  ~CachedRows();

  int64_t features() const { return static_cast<int64_t>(settings_.features.size()); }
  int64_t dim(int64_t feature) const;
  int table_of(int64_t feature) const { return settings_.features[static_cast<size_t>(feature)]; }
  DType dtype() const { return settings_.dtype; }
  RowCache& cache() const { return *settings_.cache; }

  // A pass for at most this many rows is one kernel, and the next kernel may start before it ends:
  // it must wait for its end before it reads what the pass writes.
  static constexpr int64_t kRowsOfOneKernel = 32;
  // Enqueues a pass for batches of up to `rows` rows. The key of feature f in row r is
  // keys.keys[f * rows + r]. Afterwards addresses()[r * features + f] is the address of its row.
  void find(const Context& context, const KeysOnDevice& keys, int64_t rows);
  const void* const* addresses() const { return addresses_.data(); }

  // ---- when the pass has run ----
  void clear_report();  // before it is enqueued
  MissReport report() const;
  // Lookups of each table that missed in the last pass that had misses.
  std::span<const uint32_t> missed_of_tables() const;
  // With tables that the GPU cannot read: the missing keys. All addresses of key number i point to
  // staged_row(i), where its row can be written.
  std::span<const int64_t> missing_keys() const;
  std::span<const int32_t> missing_tables() const;
  char* staged_row(int64_t i);
  // Enqueues the insertion of the first `count` staged rows for which insert[i] is not 0 into the
  // cache; `insert` is device memory.
  void insert_staged(const Context& context, const uint8_t* insert, int64_t count);

 private:
  struct Report;
  struct Parts;

  CachedRowsSettings settings_;
  int64_t positions_ = 0;
  bool gpu_reads_host_ = false;  // the GPU reads missing rows from host memory
  Buffer<const void*> addresses_;
  Buffer<char> tables_;  // BackingTableRef
  Buffer<int> feature_tables_;
  Buffer<uint32_t> map_, index_, entries_, sorted_, table_misses_;
  Buffer<char> occurrences_, counters_, staged_;
  Buffer<int64_t> staged_keys_;
  Buffer<int32_t> staged_tables_;
  std::shared_ptr<PinnedMemory> report_, missing_;
};

}  // namespace emblem::cuda
