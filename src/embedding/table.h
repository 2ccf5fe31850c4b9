// embedding/table.h - a table of embedding rows: static (key = row number) or dynamic (any 64-bit
// key, rows created at the first occurrence), with scores, eviction and admission.
//
// The behaviour of a table depends only on its content (keys, weights, state, scores, admission
// counts, clock), not on the addresses of rows or the order of their creation: a table restored
// from its files continues with the same content, on the same device or another.
//
// These methods work with host memory. On a GPU they are ordered with the stream of the context
// that the table was created with, and wait for it. Training goes through a Lookup
// (embedding/lookup.h).
//
// Thread-compatible: const methods may run concurrently; others need a lock.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/device/context.h"
#include "core/device/phase.h"
#include "core/memory/view.h"
#include "embedding/settings.h"

namespace emblem {

// Some rows of a table. weights is [keys, dim], states is [keys, state_floats].
struct RowBatch {
  std::span<const int64_t> keys;
  std::span<const float> weights;
  std::span<const float> states;    // empty: that of new rows
  std::span<const int64_t> scores;  // empty: 0
};

// A key that is not admitted yet, and its occurrences so far.
struct KeyCount {
  int64_t key;
  int64_t count;
  bool operator==(const KeyCount&) const = default;
};

class Table {
 public:
  virtual ~Table() = default;

  const TableSettings& settings() const { return settings_; }
  int64_t dim() const { return settings_.dim; }
  int64_t state_floats() const { return state_floats_; }
  bool is_static() const { return settings_.kind == TableKind::kStatic; }
  virtual int64_t size() const = 0;   // keys that have a row
  virtual int64_t bytes() const = 0;  // memory held

  // ---- single rows ----
  // False when the key has no row. `weights` holds dim floats, `state` state_floats or none. Throws
  // for keys outside a static table.
  virtual bool read(int64_t key, std::span<float> weights, std::span<float> state = {}) const = 0;
  bool contains(int64_t key) const;
  // Empty for unknown keys and in static tables.
  virtual std::optional<int64_t> score(int64_t key) const = 0;

  // out[i] = the row of keys[i], without pooling. In training new keys get rows; in evaluation an
  // unknown key reads as settings().missing. (For gradients use a Lookup with one key per bag.)
  virtual void lookup_rows(const Context& context, std::span<const int64_t> keys, Phase phase,
                           View<float> out) = 0;

  // ---- changes from outside ----
  // Dynamic tables only; returns how many keys had a row.
  virtual int64_t erase(std::span<const int64_t> keys) = 0;
  virtual void clear() = 0;  // dynamic: no rows; static: all rows as new
  // Inserts or overwrites. The last of duplicate keys is stored. A table with bins keeps the rows
  // with the highest scores of each; another one throws when it has too many.
  virtual void import_rows(const Context& context, const RowBatch& batch) = 0;
  // With Eviction::kCustom: the score that later training lookups give to their keys.
  virtual void set_next_score(int64_t score) = 0;
  // Sets the score of keys that have a row.
  virtual void set_score(std::span<const int64_t> keys, int64_t score) = 0;

  // ---- everything, for checkpoints ----
  // Calls `take` with at most `batch_rows` rows at a time, keys ascending. Needs memory for a
  // batch, and for a million keys or a few percent of all. With `since`, only rows that were
  // changed after version() had that value: the difference to a copy made then.
  virtual void export_rows(const Context& context, int64_t batch_rows,
                           const std::function<void(const RowBatch&)>& take,
                           std::optional<int64_t> since = {}) const = 0;
  // Distinct rows of all training passes, those of them that were fetched from host memory while
  // the pass waited, and rows that were prefetched. Zero without a cache.
  struct CacheUse {
    int64_t rows = 0, missed = 0, prefetched = 0;
    bool operator==(const CacheUse&) const = default;
  };
  virtual CacheUse cache_use() const { return {}; }
  // Counts the training lookups of this object; not part of the content.
  virtual int64_t version() const = 0;
  virtual std::vector<KeyCount> export_admission() const = 0;  // keys ascending
  virtual void import_admission(std::span<const KeyCount> counts) = 0;
  // Counts training lookups; scores are derived from it. Part of the content.
  virtual int64_t clock() const = 0;
  virtual void set_clock(int64_t clock) = 0;
  virtual int64_t next_score() const = 0;

 protected:
  // Throws when the settings contradict each other.
  explicit Table(TableSettings settings);
  // Checks that both devices share.
  void check_room(std::span<float> weights, std::span<float> state) const;
  void check_rows(const RowBatch& batch) const;
  void check_scores(int64_t score) const;
  void check_dynamic() const;
  // Throws for the first key outside a static table.
  [[noreturn]] void refuse(std::span<const int64_t> keys) const;
  float first_state() const;  // initial optimizer state of a new row
  // Full bins evict their own rows (embedding/bins.h).
  bool evicts_in_bins() const;
  // Throws: a batch has `keys` distinct keys of a bin that is held (from 0), more than fit into it.
  [[noreturn]] void refuse_batch(int32_t bin, int64_t keys) const;

  // The score of a free row.
  static constexpr int64_t kUnused = INT64_MIN;

  TableSettings settings_;
  int64_t state_floats_;
};

// Throws Error for a key outside a static table.
[[noreturn]] void refuse_static_key(const std::string& table, int64_t rows, int64_t key);

// A table on the context's device.
std::unique_ptr<Table> make_table(const Context& context, TableSettings settings);

}  // namespace emblem
