// embedding/table.h - a table of embedding rows on the CPU: static (key = row number) or dynamic
// (any 64-bit key, rows made on first sight), with scores, eviction and admission.
//
// What a table does depends on its content alone (keys, weights, state, scores, admission counts,
// clock), never on where rows lie or in which order they were made: a table restored from its files
// continues with the same bytes.
//
// Thread-compatible: const methods may run concurrently; others need a lock.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/context.h"
#include "core/host_vector.h"
#include "core/phase.h"
#include "core/view.h"
#include "embedding/admission.h"
#include "embedding/index.h"
#include "embedding/rows.h"
#include "embedding/settings.h"

namespace emblem {

// Some rows of a table. weights is [keys, dim], states is [keys, state_floats].
struct RowBatch {
  std::span<const int64_t> keys;
  std::span<const float> weights;
  std::span<const float> states;    // empty: all of a new row
  std::span<const int64_t> scores;  // empty: 0
};

// A run of keys of a batch and where their row numbers go.
struct KeyRun {
  std::span<const int64_t> keys;
  std::span<uint32_t> rows;
};

class Table {
 public:
  // Throws when the settings contradict each other. A static table's rows are drawn here.
  Table(const Context& context, TableSettings settings);

  const TableSettings& settings() const { return settings_; }
  int64_t dim() const { return settings_.dim; }
  int64_t state_floats() const { return state_floats_; }
  bool is_static() const { return settings_.kind == TableKind::kStatic; }
  int64_t size() const { return rows_.used(); }  // keys that have a row
  int64_t bytes() const;                         // memory held

  // ---- single rows ----
  bool contains(int64_t key) const { return find(key) != kNoRow; }
  // False when the key has no row. `weights` holds dim floats, `state` state_floats or none.
  bool read(int64_t key, std::span<float> weights, std::span<float> state = {}) const;
  std::optional<int64_t> score(int64_t key) const;  // nothing for unknown keys and in static tables

  // out[i] = the row of keys[i], without pooling. In training new keys get rows; in evaluation an
  // unknown key reads as settings().missing. (For gradients use a LocalLookup with one key a bag.)
  void lookup_rows(const Context& context, std::span<const int64_t> keys, Phase phase,
                   View<float> out);

  // ---- changes from outside ----
  int64_t erase(std::span<const int64_t> keys);  // dynamic only; returns how many had a row
  void clear();                                  // dynamic: no rows; static: all rows as new
  // Inserts or overwrites. The last of equal keys stays.
  void import_rows(const Context& context, const RowBatch& batch);
  // With Eviction::kCustom: the score that training lookups from now on give to the keys they
  // touch.
  void set_next_score(int64_t score);
  void set_score(std::span<const int64_t> keys, int64_t score);  // of keys that have a row

  // ---- everything, for checkpoints ----
  // Calls `take` with at most `batch_rows` rows at a time, keys ascending. Needs memory for a batch
  // and a few percent of the keys.
  void export_rows(const Context& context, int64_t batch_rows,
                   const std::function<void(const RowBatch&)>& take) const;
  std::vector<KeyCount> export_admission() const { return admission_.sorted(); }
  void import_admission(std::span<const KeyCount> counts);
  // Counts training lookups; scores are drawn from it. Part of the content.
  int64_t clock() const { return clock_; }
  void set_clock(int64_t clock) { clock_ = clock; }
  int64_t next_score() const { return next_score_; }

  // ---- what a Lookup is made of ----
  // The row of a key, or kNoRow. Throws for keys outside a static table.
  uint32_t find(int64_t key) const;
  // rows[i] = find(keys[i]), many at a time. Dynamic tables only.
  void find(std::span<const int64_t> keys, std::span<uint32_t> rows) const {
    index_.find(keys, rows);
  }
  // Training, after find: `runs` are all keys of this batch. Gives rows to the unknown keys that
  // are admitted, evicting others if need be, and updates scores. New rows must then be
  // initialized.
  void insert_missing(std::span<const KeyRun> runs);
  int64_t new_rows() const { return static_cast<int64_t>(new_rows_.size()); }
  void initialize_new_rows(int64_t begin, int64_t end);  // may run concurrently on disjoint ranges
  RowsRef rows() const { return rows_.ref(); }
  // What a key without a row reads as.
  const Initializer& absent(Phase phase) const {
    return phase == Phase::kTrain ? settings_.initializer : settings_.missing;
  }
  int64_t rows_end() const { return rows_.end(); }  // all row numbers are below
  bool in_use(uint32_t row) const { return is_static() || meta(row).score != kUnused; }
  // Throws for the first key outside a static table.
  [[noreturn]] void refuse(std::span<const int64_t> keys) const;

 private:
  static constexpr int64_t kUnused = INT64_MIN;  // the score of a row that no key has

  struct Meta {
    int64_t key;
    int64_t score;
  };
  struct Missing {
    uint32_t* row;    // of an occurrence of an unknown key
    uint32_t number;  // of the key in new_keys_
  };
  Meta& meta(uint32_t row) const { return *reinterpret_cast<Meta*>(meta_.at(row)); }
  Rows make_rows() const;
  uint32_t insert(int64_t key, int64_t score);
  void remove(int64_t key, uint32_t row);
  void collect_new_keys(std::span<const KeyRun> runs);
  int64_t admit_new_keys();
  void make_room(int64_t wanted, std::span<const KeyRun> runs);
  void evict(int64_t count, int64_t candidates, const std::vector<bool>& spared);
  void touch(std::span<const KeyRun> runs);
  void read_row(uint32_t row, float* weights, float* state) const;
  void write_row(uint32_t row, const float* weights, const float* state);

  TableSettings settings_;
  int64_t state_floats_;
  Rows rows_;
  Slabs meta_;   // of dynamic tables
  Index index_;  // of dynamic tables
  Admission admission_;
  int64_t clock_ = 0;
  int64_t next_score_ = 0;

  // The unknown keys of the current batch, in order of first occurrence.
  Index new_index_;
  std::vector<Missing> missing_;
  std::vector<int64_t> new_keys_;
  std::vector<int64_t> new_counts_;  // occurrences in the batch
  std::vector<int64_t> new_scores_;
  std::vector<uint32_t> new_rows_;  // kNoRow: not admitted
  HostVector<uint32_t> lookup_numbers_;
};

}  // namespace emblem
