// shard/table_requests.h - the keys of one table that a shard of a batch needs, each once, by the
// rank that holds them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/hash.h"
#include "core/host_vector.h"
#include "embedding/lookup.h"
#include "embedding/settings.h"
#include "shard/plan.h"

namespace emblem {

// Who holds the keys of a table.
class KeyOwners {
 public:
  // `table` describes all of it. Keys of a replicated table belong to `rank`.
  KeyOwners(const TableSettings& table, const TableShards& shards, int ranks, int rank);

  int ranks() const { return ranks_; }
  // Throws for keys outside a static table.
  int of(int64_t key) const {
    if (is_static_ && static_cast<uint64_t>(key) >= static_cast<uint64_t>(rows_)) refuse(key);
    return rank_of_part_[is_static_ ? part_of_static_key(key) : part_of_hashed_key(key)];
  }

 private:
  [[noreturn]] void refuse(int64_t key) const;

  std::string table_;
  bool is_static_;
  int64_t rows_;
  int ranks_;
  std::vector<uint16_t> rank_of_part_;
};

// Numbers the distinct keys of a batch. Emptied without touching its memory.
class KeyNumbers {
 public:
  // Forgets all keys and makes room for `keys` of them.
  void begin(size_t keys);
  // The number of the key, which is `next` if it had none.
  uint32_t insert(int64_t key, uint32_t next) {
    for (uint64_t slot = mix64(static_cast<uint64_t>(key)) >> shift_;; slot = (slot + 1) & mask_) {
      Slot& at = slots_[slot];
      if (at.batch != batch_) at = {key, next, batch_};
      if (at.key == key) return at.number;
    }
  }

 private:
  struct Slot {
    int64_t key;
    uint32_t number;
    uint32_t batch;  // that it was filled in
  };
  std::vector<Slot> slots_;  // a power of two
  uint64_t mask_ = 0;
  int shift_ = 0;
  uint32_t batch_ = 0;
};

// Reuses its memory from batch to batch. Used by one thread.
class TableRequests {
 public:
  // `features` are all that read the table, in order.
  void make(std::span<const FeatureKeys* const> features, const KeyOwners& owners);

  // By owner; within one, by first occurrence.
  std::span<const int64_t> keys() const { return keys_; }
  std::span<const int32_t> counts() const { return counts_; }  // occurrences of each
  int64_t begin(int owner) const { return begins_[static_cast<size_t>(owner)]; }
  int64_t size() const { return begins_.empty() ? 0 : begins_.back(); }
  // Of each key of a feature: its place in keys().
  std::span<const uint32_t> numbers(size_t feature) const { return numbers_[feature]; }

 private:
  void number_keys(std::span<const FeatureKeys* const> features);
  void sort_by_owner(const KeyOwners& owners);

  KeyNumbers known_;
  std::vector<HostVector<uint32_t>> numbers_;  // per feature
  std::vector<int64_t> first_keys_;            // by first occurrence
  std::vector<int32_t> first_counts_;
  std::vector<uint16_t> owners_;
  std::vector<uint32_t> places_;  // in keys_, of each of first_keys_
  std::vector<int64_t> keys_, begins_;
  std::vector<int32_t> counts_;
};

}  // namespace emblem
