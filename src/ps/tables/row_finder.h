// ps/tables/row_finder.h - where the rows of a batch's keys are: in the memory of this process, or
// copied out of a tier that is not.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/device/context.h"
#include "core/math/hidden_hash.h"
#include "core/memory/host_vector.h"
#include "core/memory/view.h"
#include "ps/tables/served_table.h"
#include "store/read_gate.h"

namespace emblem {

// The different keys of a batch, in order of first occurrence.
// Allocates nothing once it has seen its largest batch.
class UniqueKeys {
 public:
  void clear(size_t most) {
    keys_.clear();
    const size_t slots = std::bit_ceil(most * 2 + 1);
    if (slots > slots_.size()) slots_.resize(slots);
    mask_ = slots - 1;
    std::fill(slots_.begin(), slots_.begin() + static_cast<int64_t>(slots), kNone);
  }
  // The number of the key among the different ones.
  uint32_t add(int64_t key) {
    for (size_t at = first_slot(key);; at = (at + 1) & mask_) {
      if (slots_[at] == kNone) {
        slots_[at] = static_cast<uint32_t>(keys_.size());
        keys_.push_back(key);
        return slots_[at];
      }
      if (keys_[slots_[at]] == key) return slots_[at];
    }
  }
  std::span<const int64_t> keys() const { return keys_; }
  // Where the search for a key begins. Clients choose keys.
  size_t first_slot(int64_t key) const { return hidden_hash(key, seed_) & mask_; }

 private:
  static constexpr uint32_t kNone = 0xffffffffu;
  std::vector<int64_t> keys_;
  std::vector<uint32_t> slots_;
  size_t mask_ = 0;
  uint64_t seed_ = hidden_seed();
};

// Used by one thread at a time; any number may read the same tables at the same time, while these
// are updated. With tables in memory it allocates nothing once it has seen its largest batch.
class RowFinder {
 public:
  // One table per feature, borrowed; a table may be that of several.
  explicit RowFinder(std::span<ServedTable* const> tables);

  // For as long as it lives, rows that were found stay valid and unchanged.
  class Reading {
   public:
    explicit Reading(RowFinder& finder);
    Reading(Reading&& other) noexcept : finder_(std::exchange(other.finder_, nullptr)) {}
    ~Reading();

   private:
    RowFinder* finder_;
  };

  // Finds the rows of keys[f] in the table of feature f, for each feature. Tables in the same Redis
  // are asked in one round trip. Throws kUnavailable when a tier that is needed cannot answer.
  Reading find(const Context& context, std::span<const View<const int64_t>> keys);

  // The row of each key of a feature, in format(); null: no tier has it.
  const std::byte* const* rows(size_t feature) const { return features_[feature].rows.data(); }
  const RowFormat& format(size_t feature) const { return features_[feature].format; }
  // The keys of a feature whose row no tier has.
  int64_t missing(size_t feature) const { return features_[feature].missing; }

 private:
  struct Feature {
    ServedTable* table;
    const MemoryTable* memory;  // null: rows must be fetched
    RowFormat format;
    HostVector<const std::byte*> rows{};  // a key's row; null: no tier has it
    int64_t missing = 0;                  // keys of the last batch that no tier has
    HostVector<float> fetched{};          // rows that had to be copied out of a tier
    HostVector<std::byte> stored{};       // the same in the format, where it is not fp32
    UniqueKeys unique{};                  // whose rows are missing so far
    HostVector<uint32_t> numbers{};       // number of each key among the unique ones
    HostVector<uint8_t> found{};          // whether each unique key was found
  };
  using Keys = std::span<const View<const int64_t>>;

  void fetch_remote(Keys keys);
  static void list_missing(Feature& feature, View<const int64_t> keys);
  void count_missing(Feature& feature, uint64_t missing) const;
  static const std::byte* store_fetched(Feature& feature);
  void take_fetched(Feature& feature, View<const int64_t> keys) const;
  void find_in_memory(const Context& context, Keys keys);
  void find_all_at_once(Keys keys);
  void find_in_pieces(const Context& context, Keys keys);
  void finish_in_memory(Feature& feature, View<const int64_t> keys, int64_t nanoseconds) const;

  std::vector<Feature> features_;
  std::vector<const ReadGate*> gates_;  // each once
  std::vector<ReadGate::Reader> readers_;
  unsigned cpu_ = 0;
  std::vector<uint64_t> hashes_;
  struct Piece {
    size_t feature;
    int64_t begin;
  };
  std::vector<Piece> pieces_;
};

}  // namespace emblem
