#include "train/run/rank_tables.h"

#include <algorithm>

#include "embedding/bins.h"
#include "model/lookup/memory_estimate.h"
#include "shard/sharded_lookup.h"

namespace emblem {
namespace {

// Throws before any rank allocates where the tables of all ranks on this host do not fit into its
// memory together. Collective.
void require_memory_of_ranks(const Context& context, const World& world,
                             const std::vector<TableSettings>& parts) {
  struct Need {
    int64_t wanted = 0, room = 0;
  };
  Need own{host_bytes_of_tables(context, parts), room_for_tables(context)};
  std::vector<Need> all(static_cast<size_t>(world.size()));
  world.ranks->gather_all(Context{}, {&own, sizeof own}, {all.data(), all.size() * sizeof own});
  const auto& hosts = world.ranks->hosts();
  const std::string& host = hosts[static_cast<size_t>(world.rank())].name;
  int64_t room = own.room, others = 0;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (hosts[rank].name != host || rank == static_cast<size_t>(world.rank())) continue;
    room = std::min(room, all[rank].room);  // containers of one host may have limits of their own
    others += all[rank].wanted;
  }
  require_table_memory(context, parts, room, others);
}

}  // namespace

MakeRankTables rank_tables_of(const Context& context, const World& world,
                              const RankExchange& exchange) {
  if (world.has_whole_tables) return nullptr;
  return [context, world, exchange](const LookupTables& wanted) {
    RankTables made;
    std::vector<ShardedTable> tables;
    std::vector<TableSettings> parts;
    made.notes_absent = context.device == Device::kCpu;
    for (TableSettings settings : wanted.tables) {
      settings.bins = bins_of_limits(settings);
      const TableShards shards =
          in_whole_bins(world.plan != nullptr ? world.plan->of(settings.name)
                                              : over_all_ranks(settings.name, world.size()),
                        settings.bins);
      made.notes_absent &= !shards.pooled_at_owner;
      parts.push_back(settings_of_part(settings, shards, world.rank()));
      tables.push_back({settings, shards, nullptr});
    }
    require_memory_of_ranks(context, world, parts);
    for (size_t t = 0; t < parts.size(); ++t) {
      made.tables.push_back(make_table(context, parts[t]));
      tables[t].local = made.tables.back().get();
    }
    std::vector<ShardedFeature> features;
    for (const TableUse& use : wanted.uses)
      features.push_back({static_cast<size_t>(use.table), use.pooling});
    made.lookup = make_sharded_lookup(context, tables, features,
                                      {.host = world.ranks,
                                       .device = &world.device_ranks(),
                                       .slots = world.slots(),
                                       .precision = exchange.precision,
                                       .host_dedup = exchange.host_dedup},
                                      wanted.lookup);
    return made;
  };
}

}  // namespace emblem
