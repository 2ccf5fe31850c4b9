#include "shard/table_requests.h"

#include <algorithm>
#include <bit>

#include "embedding/table.h"

namespace emblem {

KeyOwners::KeyOwners(const TableSettings& table, const TableShards& shards, int ranks, int rank)
    : table_(table.name),
      is_static_(table.kind == TableKind::kStatic),
      rows_(table.capacity),
      ranks_(ranks),
      rank_of_part_(kParts, static_cast<uint16_t>(rank)) {
  if (shards.replicated) return;
  for (int r = 0; r < ranks; ++r) {
    const PartRange held = shards.held_by(r);
    for (int32_t part = held.first; part < held.last; ++part)
      rank_of_part_[static_cast<size_t>(part)] = static_cast<uint16_t>(r);
  }
}

void KeyOwners::refuse(int64_t key) const { refuse_static_key(table_, rows_, key); }

void KeyNumbers::begin(size_t keys) {
  const size_t wanted = std::bit_ceil(2 * keys + 2);
  if (wanted > slots_.size() || ++batch_ == 0) {
    slots_.assign(std::max(wanted, slots_.size()), {});
    mask_ = slots_.size() - 1;
    shift_ = 64 - std::countr_zero(slots_.size());
    batch_ = 1;
  }
}

void TableRequests::make(std::span<const FeatureKeys* const> features, const KeyOwners& owners) {
  number_keys(features);
  sort_by_owner(owners);
  for (size_t f = 0; f < features.size(); ++f)
    for (uint32_t& number : numbers_[f]) number = places_[number];
}

void TableRequests::number_keys(std::span<const FeatureKeys* const> features) {
  size_t total = 0;
  for (const FeatureKeys* feature : features) total += static_cast<size_t>(feature->keys.size());
  known_.begin(total);
  first_keys_.clear();
  first_counts_.clear();
  numbers_.resize(features.size());
  for (size_t f = 0; f < features.size(); ++f) {
    const View<const int64_t>& keys = features[f]->keys;
    numbers_[f].resize(static_cast<size_t>(keys.size()));
    for (int64_t i = 0; i < keys.size(); ++i) {
      const auto next = static_cast<uint32_t>(first_keys_.size());
      const uint32_t number = known_.insert(keys.data[i], next);
      if (number == next) {
        first_keys_.push_back(keys.data[i]);
        first_counts_.push_back(0);
      }
      ++first_counts_[number];
      numbers_[f][static_cast<size_t>(i)] = number;
    }
  }
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
  std::vector<int64_t> next(begins_.begin(), begins_.end() - 1);
  for (size_t i = 0; i < count; ++i) {
    const auto place = static_cast<size_t>(next[owners_[i]]++);
    places_[i] = static_cast<uint32_t>(place);
    keys_[place] = first_keys_[i];
    counts_[place] = first_counts_[i];
  }
}

}  // namespace emblem
