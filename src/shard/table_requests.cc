#include "shard/table_requests.h"

#include <algorithm>
#include <bit>

#include "embedding/table.h"

namespace emblem {
namespace {

constexpr uint32_t kFree = ~uint32_t{0};

}  // namespace

KeyOwners::KeyOwners(const TableSettings& table, const TableShards& shards, int ranks, int rank)
    : table_(table.name),
      is_static_(table.kind == TableKind::kStatic),
      rows_(table.capacity),
      rank_of_part_(kParts, static_cast<uint16_t>(rank)) {
  for (int r = 0; r < ranks; ++r) {
    held_.push_back(shards.held_by(r));
    if (shards.replicated) continue;
    for (int32_t part = held_.back().first; part < held_.back().last; ++part)
      rank_of_part_[static_cast<size_t>(part)] = static_cast<uint16_t>(r);
  }
}

void KeyOwners::refuse(int64_t key) const { refuse_static_key(table_, rows_, key); }

void TableRequests::make(std::span<const FeatureKeys* const> features, const KeyOwners& owners,
                         KeySlots& slots) {
  number_keys(features, owners, slots);
  sort_by_owner(owners);
}

void TableRequests::number_keys(std::span<const FeatureKeys* const> features,
                                const KeyOwners& owners, KeySlots& slots) {
  size_t total = 0;
  for (const FeatureKeys* feature : features) total += static_cast<size_t>(feature->keys.size());
  // A small table has a slot for every key, else there are two for each of the batch.
  const size_t hashed = std::bit_ceil(2 * total + 2);
  const auto rows = static_cast<uint64_t>(owners.rows());
  const bool direct = rows > 0 && rows <= hashed;
  slots.assign(direct ? static_cast<size_t>(rows) : hashed, kFree);
  const int shift = 64 - std::countr_zero(hashed);
  // One more than there are keys: every key is written before it is known to be new.
  first_keys_.resize(total + 1);
  first_counts_.resize(total + 1);
  numbers_.resize(features.size());
  uint32_t next = 0;
  for (size_t f = 0; f < features.size(); ++f) {
    const View<const int64_t>& keys = features[f]->keys;
    numbers_[f].resize(static_cast<size_t>(keys.size()));
    if (direct) {
      next = number_feature(keys, numbers_[f].data(), next, slots, [&](int64_t key) {
        if (static_cast<uint64_t>(key) >= rows) owners.refuse(key);
        return static_cast<size_t>(key);
      });
    } else {
      next = number_feature(keys, numbers_[f].data(), next, slots, [shift](int64_t key) {
        return static_cast<size_t>(mix64(static_cast<uint64_t>(key)) >> shift);
      });
    }
  }
  first_keys_.resize(next);
  first_counts_.resize(next);
}

// Whether a key is new is hard to predict, so the usual cases have no branch for it.
template <class SlotOf>
uint32_t TableRequests::number_feature(const View<const int64_t>& keys, uint32_t* numbers,
                                       uint32_t next, KeySlots& slots, SlotOf&& slot_of) {
  const size_t mask = slots.size() - 1;
  uint32_t* const numbered = slots.data();
  int64_t* const first_keys = first_keys_.data();
  int32_t* const counts = first_counts_.data();
  for (int64_t i = 0; i < keys.size(); ++i) {
    const int64_t key = keys.data[i];
    size_t slot = slot_of(key);
    first_keys[next] = key;
    counts[next] = 0;
    uint32_t number = std::min(numbered[slot], next);  // kFree: next
    while (first_keys[number] != key) [[unlikely]] {
        slot = (slot + 1) & mask;
        number = std::min(numbered[slot], next);
      }
    numbered[slot] = number;
    numbers[i] = number;
    ++counts[number];
    next += number == next;
  }
  return next;
}

void TableRequests::sort_by_owner(const KeyOwners& owners) {
  const size_t count = first_keys_.size();
  owners_.resize(count);
  places_.resize(count);
  keys_.resize(count);
  counts_.resize(count);
  begins_.assign(static_cast<size_t>(owners.ranks()) + 1, 0);
  for (size_t i = 0; i < count; ++i) {
    owners_[i] = static_cast<uint16_t>(owners.of(first_keys_[i]));
    ++begins_[owners_[i] + 1u];
  }
  for (size_t r = 1; r < begins_.size(); ++r) begins_[r] += begins_[r - 1];
  next_.assign(begins_.begin(), begins_.end() - 1);
  for (size_t i = 0; i < count; ++i) {
    const auto place = static_cast<size_t>(next_[owners_[i]]++);
    places_[i] = static_cast<uint32_t>(place);
    keys_[place] = owners.key_at(owners_[i], first_keys_[i]);
    counts_[place] = first_counts_[i];
  }
}

}  // namespace emblem
