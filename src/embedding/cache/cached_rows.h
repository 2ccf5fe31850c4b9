// embedding/cache/cached_rows.h - where the rows of a batch lie: in a cache on the GPU, or beside
// it for this batch. CUDA builds only.
//
// Nothing is copied for rows that are in the cache: who computes with them reads them there. All
// epochs are asynchronous, allocate nothing and can be captured in a CUDA graph.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "core/buffer.h"
#include "core/half.h"
#include "embedding/cache/row_cache.h"
#include "embedding/settings.h"

namespace emblem::cuda {

// In the place of a key: the row of the batch has none for the feature.
inline constexpr int64_t kNoKey = std::numeric_limits<int64_t>::min();

// What a pass works on; in device memory, filled before it runs.
struct KeysOnDevice {
  const uint32_t* rows = nullptr;  // of the batch; those behind them get a row of zeros
  const int64_t* keys = nullptr;   // [positions], see CachedRows::find; kNoKey gets one too
};

// A table behind the cache.
struct BackingTable {
  int64_t dim = 0;
  Initializer missing = {Initializer::Kind::kConstant, 0.0f, 0.0f};  // of keys without a row
  uint64_t seed = 1;
  // Where the GPU reads the row of key k itself, at rows + k * row_bytes for k < count: host memory
  // that it reaches. Null: the misses of a pass are reported, and read as missing until they come.
  const char* rows = nullptr;
  int64_t count = 0;
};

// The keys of a pass that were not in the cache. In host memory that the GPU writes.
struct MissReport {
  uint32_t lookups = 0;   // that missed
  uint32_t distinct = 0;  // keys of them
  uint32_t absent = 0;    // lookups of keys that have no row, where that is known
};

struct CachedRowsSettings {
  RowCache* cache = nullptr;         // borrowed; shared by any number of these
  DType dtype = DType::kF32;         // of the rows
  std::vector<BackingTable> tables;  // those of the cache
  std::vector<int> features;         // the table of each; at most one key a row of the batch
  int64_t max_rows = 0;              // of a batch
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

  // A pass for so few rows is one kernel, beside which the next may start: it must read nothing
  // that the pass writes before the pass is done.
  static constexpr int64_t kRowsOfOneKernel = 32;
  // Enqueues a pass for batches of up to `rows` rows. The key of feature f in row r is
  // keys.keys[f * rows + r]. Afterwards addresses()[r * features + f] is where its row lies.
  void find(const Context& context, const KeysOnDevice& keys, int64_t rows);
  const void* const* addresses() const { return addresses_.data(); }

  // ---- when the pass has run ----
  void clear_report();  // before it is enqueued
  MissReport report() const;
  // Lookups of each table that missed; of the last pass that had misses.
  std::span<const uint32_t> missed_of_tables() const;
  // With tables that the GPU does not reach: what is missing, the row of number i being staged at
  // staged_row(i), where all addresses that wait for it point.
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
  bool gpu_reads_host_ = false;  // the GPU gets the rows itself
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
