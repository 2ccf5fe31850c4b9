// embedding/cpu/host_table.h - a table in host memory.
//
// Thread-compatible: const methods may run concurrently; others need a lock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/memory/host_vector.h"
#include "embedding/bins.h"
#include "embedding/cpu/key_index.h"
#include "embedding/cpu/rows.h"
#include "embedding/row_share.h"
#include "embedding/table.h"

namespace emblem {

// The rows of each bin of a table that evicts within bins. Thread-compatible. Of a table that does
// not evict within bins: one bin, without a list of its rows.
class RowBins {
 public:
  explicit RowBins(const TableSettings& settings) {
    const bool evicts = settings.eviction != Eviction::kNone && settings.capacity > 0;
    if (settings.bins == 0 || !evicts) return;
    bins_ = held_bins(settings);
    rows_.resize(static_cast<size_t>(bins_.count));
  }

  bool has_lists() const { return !rows_.empty(); }
  size_t count() const { return static_cast<size_t>(bins_.count); }
  size_t of(int64_t key) const { return bins_.of(key); }
  std::vector<uint32_t>& rows(size_t bin) { return rows_[bin]; }
  const std::vector<uint32_t>& rows(size_t bin) const { return rows_[bin]; }
  int64_t bytes() const {
    int64_t bytes = 0;
    for (const auto& rows : rows_)
      bytes += static_cast<int64_t>(rows.capacity() * sizeof(uint32_t));
    return bytes;
  }

  // Makes add of this key succeed.
  void make_room(int64_t key) {
    if (!has_lists()) return;
    std::vector<uint32_t>& rows = rows_[of(key)];
    if (rows.size() == rows.capacity()) rows.reserve(2 * rows.size() + 1);
  }
  void add(int64_t key, uint32_t row) {
    if (has_lists()) rows_[of(key)].push_back(row);
  }
  // Searches the bin.
  void remove(int64_t key, uint32_t row) {
    if (has_lists()) std::erase(rows_[of(key)], row);
  }
  void clear() {
    for (auto& rows : rows_) rows.clear();
  }

 private:
  HeldBins bins_;
  std::vector<std::vector<uint32_t>> rows_;  // by bin
};

// Counts the occurrences of keys that have no row yet. Thread-compatible.
class Admission {
 public:
  // threshold <= 1 admits every key at once. `capacity`: most keys of a bin to count; 0: no limit.
  Admission(int64_t threshold, int64_t capacity, const HeldBins& bins = {})
      : threshold_(threshold),
        capacity_(capacity),
        bins_(bins),
        counts_(static_cast<size_t>(bins.count)) {}

  bool open() const { return threshold_ <= 1; }
  // Adds `occurrences` of a key. Returns its total when that reaches the threshold (and removes the
  // key), else 0.
  int64_t count(int64_t key, int64_t occurrences);
  // To be called after each batch: drops the keys of a bin with the lowest counts (ties: the
  // smaller key), in bulk, when there are too many.
  void prune();

  int64_t bytes() const;
  std::vector<KeyCount> sorted() const;  // keys ascending
  void restore(std::span<const KeyCount> counts);
  void clear();

 private:
  int64_t threshold_;
  int64_t capacity_;
  HeldBins bins_;
  std::vector<KeyIndex> counts_;  // by bin; the value is the count
};

// The keys of a feature in a batch, and their row numbers.
struct KeyRun {
  std::span<const int64_t> keys;
  std::span<uint32_t> rows;
  std::span<const int32_t> counts = {};  // how many equal keys each stands for; empty: 1

  int64_t count(size_t i) const { return counts.empty() ? 1 : counts[i]; }
};

class HostTable : public Table {
 public:
  // Initializes the rows of a static table.
  HostTable(const Context& context, TableSettings settings);

  int64_t size() const override {
    return is_static() ? keys_held(settings_.capacity, settings_.held) : rows_.used();
  }
  int64_t bytes() const override;
  bool read(int64_t key, std::span<float> weights, std::span<float> state = {}) const override;
  std::optional<int64_t> score(int64_t key) const override;
  void lookup_rows(const Context& context, std::span<const int64_t> keys, Phase phase,
                   View<float> out) override;
  int64_t erase(std::span<const int64_t> keys) override;
  void clear() override;
  void import_rows(const Context& context, const RowBatch& batch) override;
  void set_next_score(int64_t score) override;
  void set_score(std::span<const int64_t> keys, int64_t score) override;
  void export_rows(const Context& context, int64_t batch_rows,
                   const std::function<void(const RowBatch&)>& take,
                   std::optional<int64_t> since = {}) const override;
  int64_t version() const override { return version_; }
  std::vector<KeyCount> export_admission() const override { return admission_.sorted(); }
  void import_admission(std::span<const KeyCount> counts) override;
  int64_t clock() const override { return clock_; }
  void set_clock(int64_t clock) override { clock_ = clock; }
  int64_t next_score() const override { return next_score_; }

  // ---- for HostLookup ----
  // The row of a key, or kNoRow. Throws for keys outside a static table.
  uint32_t find(int64_t key) const;
  // rows[i] = find(keys[i]), many at a time. Dynamic tables only.
  void find(std::span<const int64_t> keys, std::span<uint32_t> rows) const {
    index_.find(keys, rows);
  }
  // Training, after find: `runs` are all keys of this batch. Gives rows to the unknown keys that
  // are admitted, evicting others if need be, and updates scores. New rows must then be
  // initialized, also where it throws for another table. Where it throws, the unknown keys that
  // have got a row are initialized.
  void insert_missing(std::span<const KeyRun> runs);
  void forget_new_rows() noexcept {
    new_rows_.clear();
    new_keys_.clear();
  }
  int64_t new_rows() const { return static_cast<int64_t>(new_rows_.size()); }
  void initialize_new_rows(int64_t begin, int64_t end);  // may run concurrently on disjoint ranges
  RowsRef rows() const { return rows_.ref(); }
  // What a key without a row reads as.
  const Initializer& absent(Phase phase) const {
    return phase == Phase::kTrain ? settings_.initializer : settings_.missing;
  }
  int64_t rows_end() const { return rows_.end(); }  // all row numbers are below
  bool in_use(uint32_t row) const { return is_static() || meta(row).score != kUnused; }
  // Begins a training lookup: rows that it touches get the new version.
  void next_version() { ++version_; }
  void note_change(uint32_t row) {
    if (is_static())
      changed_[row] = static_cast<uint32_t>(version_);
    else
      meta(row).changed = version_;
  }
  using Table::refuse;

 private:
  struct Meta {
    int64_t key;
    int64_t score;
    int64_t changed;  // the version of the last training lookup that touched it
  };
  int64_t changed(uint32_t row) const { return is_static() ? changed_[row] : meta(row).changed; }
  struct Missing {
    uint32_t* row;    // row of an occurrence of an unknown key
    uint32_t number;  // number of the key in new_keys_
  };
  Meta& meta(uint32_t row) const { return *reinterpret_cast<Meta*>(meta_.at(row)); }
  Rows make_rows() const;
  uint32_t insert(int64_t key, int64_t score);
  void remove(int64_t key, uint32_t row);
  void collect_new_keys(std::span<const KeyRun> runs);
  void insert_new_keys(std::span<const KeyRun> runs);
  void check_room_to_import(std::span<const int64_t> keys) const;
  uint32_t row_of_imported(const RowBatch& batch, int64_t i);
  int64_t admit_new_keys();
  void make_room(int64_t wanted, std::span<const KeyRun> runs);
  int64_t size_of(size_t bin) const {
    return bins_.has_lists() ? static_cast<int64_t>(bins_.rows(bin).size()) : size();
  }
  int64_t capacity_of_bin() const {
    return settings_.capacity / static_cast<int64_t>(bins_.count());
  }
  // New keys by bin that are admitted, `wanted` in all.
  std::vector<int64_t> wanted_by_bin(int64_t wanted) const;
  void evict(int64_t count, int64_t candidates, const std::vector<bool>& spared);
  void evict_of_bin(size_t bin, int64_t count, const std::vector<bool>& spared);
  void drop_excess_rows();  // drops rows of bins that have more than their share
  void touch(std::span<const KeyRun> runs);
  void initialize_all(const Context& context);  // initializes a static table
  // The row of a key of a static table that is held.
  uint32_t row_of(int64_t key) const {
    return static_cast<uint32_t>(settings_.held.is_everything() ? key
                                                                : local_row(key, settings_.held));
  }
  void read_row(uint32_t row, float* weights, float* state) const;
  void write_row(uint32_t row, const float* weights, const float* state);

  Rows rows_;
  Slabs meta_;      // metadata of dynamic tables
  KeyIndex index_;  // index of dynamic tables
  RowBins bins_;
  Admission admission_;
  int64_t clock_ = 0;
  int64_t version_ = 0;
  HostVector<uint32_t> changed_;  // flags of static tables: as Meta::changed
  int64_t next_score_ = 0;

  // The unknown keys of the current batch, in order of first occurrence.
  KeyIndex new_index_;
  std::vector<Missing> missing_;
  std::vector<int64_t> new_keys_;
  std::vector<int64_t> new_counts_;  // occurrences in the batch
  std::vector<int64_t> new_scores_;
  std::vector<uint32_t> new_rows_;  // kNoRow: not admitted
  HostVector<uint32_t> lookup_numbers_;
};

}  // namespace emblem
