// What a rank computes from the rows that came: pooled bags, and sums of gradients by key.
#include <algorithm>

#include "shard/host_sharded_lookup.h"

namespace emblem {

void HostShardedLookup::find_vectors(Unit& of) {
  const TableRequests& requests = of.requests;
  const int64_t dim = tables_[of.table].settings.dim;
  std::vector<float*> first;  // address of keys()[0], were all from this owner
  for (int rank = 0; rank < ranks_.size(); ++rank)
    first.push_back(asked_vectors(of, rank) - requests.begin(rank) * dim);
  of.vectors.resize(static_cast<size_t>(requests.size()));
  for (size_t n = 0; n < of.vectors.size(); ++n)
    of.vectors[n] = first[requests.owners()[n]] + int64_t{requests.places()[n]} * dim;
}

// How a feature of a unit is pooled.
GatherPool HostShardedLookup::gather_of(const Unit& unit, size_t f, View<float> out) {
  const Feature& feature = features_[f];
  const FeatureKeys& keys = unit.keys[feature.position];
  const int64_t dim = tables_[feature.table].settings.dim;
  const bool is_elsewhere = unit.rank != self_;
  GatherPool op{.rows = {.dim = dim},
                .row_numbers = unit.requests.numbers(feature.position).data(),
                .row_addresses = unit.vectors.data(),
                .offsets = keys.offsets.size() > 0 ? keys.offsets.data : nullptr,
                .weights = keys.weights.size() > 0 ? keys.weights.data : nullptr,
                .bags = bags_of(keys),
                .pooling = feature.pooling,
                .out_stride = is_elsewhere ? dim : width_};
  if (is_elsewhere)
    op.out = pooling_.vectors(unit.rank, unit.slot, feature.pooled);
  else if (op.bags > 0)
    op.out = out.data + shards_[unit.slot].first_bag * width_ + feature.column;
  return op;
}

// Pools the rows that came.
void HostShardedLookup::expand(const Context& context, View<float> out) {
  for_each_unit(context, [&](Unit& unit) { find_vectors(unit); });
  gathers_.clear();
  bag_chunks_.clear();
  for (const Shard& shard : shards_) {
    bag_chunks_.add(shard.bags);
    for (size_t f = 0; f < features_.size(); ++f) {
      const Unit& unit = shard.tables[features_[f].table];
      gathers_.push_back(unit.keys.empty() ? GatherPool{} : gather_of(unit, f, out));
    }
  }
  for (const Unit& unit : owner_units_) {
    for (const size_t f : tables_[unit.table].features) {
      gathers_.push_back(gather_of(unit, f, out));
      bag_chunks_.add(gathers_.back().bags);
    }
  }
  const auto shards = static_cast<int64_t>(shards_.size());
  bag_chunks_.run(context, [&](int64_t, int64_t list, int64_t begin, int64_t end) {
    const size_t each = features_.size();
    if (list >= shards)
      return cpu::gather_pool(gathers_[shards_.size() * each + static_cast<size_t>(list - shards)],
                              begin, end);
    const GatherPool* ops = gathers_.data() + static_cast<size_t>(list) * each;
    for (size_t f = 0; f < each; ++f)
      if (ops[f].bags > 0) cpu::gather_pool(ops[f], begin, end);
  });
}

void HostShardedLookup::count_missing() {
  for (const Shard& shard : shards_)
    for (size_t f = 0; f < sources_; ++f) counts_[f].values += shard.sources[f].keys.size();
  std::vector<uint8_t> absent;
  for (const Unit* unit : units_) {
    const HeldTable& table = tables_[unit->table];
    const TableRequests& requests = unit->requests;
    absent.clear();
    for (int rank = 0; table.can_miss && table.counts_missing && rank < ranks_.size(); ++rank) {
      const int64_t count = requests.begin(rank + 1) - requests.begin(rank);
      if (count == 0) continue;
      const uint8_t* flags = asked_absent(*unit, rank);
      absent.insert(absent.end(), flags, flags + count);
    }
    const bool some = std::find(absent.begin(), absent.end(), 1) != absent.end();
    for (size_t position = 0; position < unit->keys.size(); ++position) {
      const Feature& feature = features_[table.features[position]];
      const View<uint8_t> noted = unit->keys[position].absent;
      if (table.counts_missing && noted.size() > 0)
        std::fill_n(noted.data, noted.size(), uint8_t{0});
      int64_t missing = 0;
      for (size_t i = 0; some && i < requests.numbers(position).size(); ++i) {
        const uint8_t flag = absent[requests.places()[requests.numbers(position)[i]]];
        if (noted.size() > 0) noted.data[i] = flag;
        missing += flag;
      }
      if (unit->rank == self_)
        counts_[feature.source].missing += missing;
      else
        pooling_.missing(unit->rank, unit->slot, feature.pooled) = missing;
    }
  }
}

// Writes the sums to where their owners are sent them from.
void HostShardedLookup::sum_by_key(const Context& context, View<const float> gradients) {
  for_each_unit(context, [&](Unit& unit) {
    find_vectors(unit);
    unit.occurrences.clear();
    for (size_t position = 0; position < unit.keys.size(); ++position) {
      const Feature& feature = features_[tables_[unit.table].features[position]];
      Occurrences of{unit.keys[position], unit.requests.numbers(position).data(), feature.pooling};
      if (unit.rank != self_) {
        of.first = pooling_.gradients_begin(unit.rank, unit.slot, feature.pooled);
        of.stride = tables_[unit.table].settings.dim;
      } else if (unit.slot < shards_.size()) {
        of.first = shards_[unit.slot].first_bag * width_ + feature.column;
        of.stride = width_;
      }
      unit.occurrences.push_back(of);
    }
    unit.grouping.group_numbered(unit.occurrences, unit.requests.counts_by_number());
  });
  segment_chunks_.clear();
  updates_.clear();
  for (const Unit* unit : units_) {
    updates_.push_back({.rows = {.dim = tables_[unit->table].settings.dim},
                        .segments = unit->grouping.segments(0),
                        .gradients = unit->rank == self_ ? gradients.data : pooling_.gradients()});
    segment_chunks_.add(updates_.back().segments.count);
  }
  segment_chunks_.run(context, [&](int64_t, int64_t list, int64_t begin, int64_t end) {
    const auto number = static_cast<size_t>(list);
    cpu::sum_segments(updates_[number], begin, end, units_[number]->vectors.data());
  });
}

}  // namespace emblem
