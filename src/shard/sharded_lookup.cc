#include "shard/sharded_lookup.h"

#include <algorithm>
#include <cmath>

#include "shard/host_sharded_lookup.h"

namespace emblem {
namespace {

// Of `total` keys, those whose part is among the held ones: never fewer than are likely to be. Keys
// are spread by a hash, so their number varies by a few times its square root.
int64_t share_of(int64_t total, PartRange held, bool evicts) {
  if (total == 0 || held.is_everything()) return total;
  const double mean = static_cast<double>(total) * held.count() / kParts;
  const double slack = evicts ? 0.0 : 6.0 * std::sqrt(mean) + 16.0;
  return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(mean + slack)), 1, total);
}

}  // namespace

TableSettings settings_of_part(const TableSettings& table, const TableShards& shards, int rank) {
  TableSettings part = table;
  part.held = shards.held_by(rank);
  if (table.kind == TableKind::kStatic) return part;
  const bool evicts = table.eviction != Eviction::kNone;
  part.capacity = share_of(table.capacity, part.held, evicts);
  part.initial_capacity = share_of(table.initial_capacity, part.held, evicts);
  part.admission_capacity = share_of(table.admission_capacity, part.held, true);
  return part;
}

std::unique_ptr<Lookup> make_sharded_lookup(const Context& context,
                                            std::span<const ShardedTable> tables,
                                            std::span<const ShardedFeature> features,
                                            Communicator& ranks, int64_t slots) {
  EMBLEM_REQUIRE(context.device == Device::kCpu,
                 "training on several ranks runs on CPUs only so far; use --device cpu");
  return std::make_unique<HostShardedLookup>(tables, features, ranks, slots);
}

}  // namespace emblem
