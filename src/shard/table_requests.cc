#include "shard/table_requests.h"

#include "embedding/table.h"

namespace emblem {

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
  numbered_.number(features, owners.rows(), slots, [&](int64_t key) { owners.refuse(key); });
  sort_by_owner(owners);
}

void TableRequests::sort_by_owner(const KeyOwners& owners) {
  const std::span<const int64_t> first_keys = numbered_.keys();
  const size_t count = first_keys.size();
  owners_.resize(count);
  places_.resize(count);
  keys_.resize(count);
  counts_.resize(count);
  begins_.assign(static_cast<size_t>(owners.ranks()) + 1, 0);
  for (size_t i = 0; i < count; ++i) {
    owners_[i] = static_cast<uint16_t>(owners.of(first_keys[i]));
    ++begins_[owners_[i] + 1u];
  }
  for (size_t r = 1; r < begins_.size(); ++r) begins_[r] += begins_[r - 1];
  next_.assign(begins_.begin(), begins_.end() - 1);
  for (size_t i = 0; i < count; ++i) {
    const auto place = static_cast<size_t>(next_[owners_[i]]++);
    places_[i] = static_cast<uint32_t>(place);
    keys_[place] = owners.key_at(owners_[i], first_keys[i]);
    counts_[place] = numbered_.counts()[i];
  }
}

}  // namespace emblem
