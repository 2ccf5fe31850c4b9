// shard/table_requests.h - the keys of one table that a shard of a batch needs, each once, by the
// rank that holds them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/memory/host_vector.h"
#include "embedding/lookup.h"
#include "embedding/row_share.h"
#include "embedding/settings.h"
#include "shard/key_numbers.h"
#include "shard/table_shards.h"

namespace emblem {

// Placement of the keys of a table.
class KeyOwners {
 public:
  // `table` describes all of it. Keys of a replicated table belong to `rank`.
  KeyOwners(const TableSettings& table, const TableShards& shards, int ranks, int rank);

  int ranks() const { return static_cast<int>(held_.size()); }
  // Keys of a static table are below it; 0 for a dynamic table.
  int64_t rows() const { return is_static_ ? rows_ : 0; }
  // Throws for keys outside a static table.
  int of(int64_t key) const {
    if (is_static_ && static_cast<uint64_t>(key) >= static_cast<uint64_t>(rows_)) refuse(key);
    return rank_of_part_[static_cast<size_t>(is_static_ ? part_of_static_key(key)
                                                        : part_of_hashed_key(key))];
  }
  // The number by which the lookup of its owner knows a key: of a static table, the row.
  int64_t key_at(int owner, int64_t key) const {
    const PartRange held = held_[static_cast<size_t>(owner)];
    return is_static_ && !held.is_everything() ? local_row(key, held) : key;
  }
  [[noreturn]] void refuse(int64_t key) const;

 private:
  std::string table_;
  bool is_static_;
  int64_t rows_;
  std::vector<PartRange> held_;  // by rank
  std::vector<uint16_t> rank_of_part_;
};

// Reuses its memory from batch to batch. Used by one thread.
class TableRequests {
 public:
  // `features` are all that read the table, in order.
  void make(std::span<const FeatureKeys* const> features, const KeyOwners& owners, KeySlots& slots);

  // Distinct keys as their owners know them, by owner; within one, by first occurrence.
  std::span<const int64_t> keys() const { return keys_; }
  std::span<const int32_t> counts() const { return counts_; }  // occurrences of each
  int64_t begin(int owner) const { return begins_[static_cast<size_t>(owner)]; }
  int64_t size() const { return begins_.empty() ? 0 : begins_.back(); }

  // Distinct keys are numbered by first occurrence. Of each key of a feature: its number.
  std::span<const uint32_t> numbers(size_t feature) const { return numbered_.numbers(feature); }
  std::span<const int32_t> counts_by_number() const { return numbered_.counts(); }
  // The owner of each number, and its place in keys().
  std::span<const uint16_t> owners() const { return owners_; }
  std::span<const uint32_t> places() const { return places_; }

 private:
  void sort_by_owner(const KeyOwners& owners);

  KeyNumbers numbered_;
  HostVector<uint16_t> owners_;
  HostVector<uint32_t> places_;
  HostVector<int64_t> keys_;
  HostVector<int32_t> counts_;
  std::vector<int64_t> begins_, next_;
};

}  // namespace emblem
