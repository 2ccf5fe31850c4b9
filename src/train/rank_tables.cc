#include "train/rank_tables.h"

#include "embedding/bins.h"
#include "model/memory_estimate.h"
#include "shard/sharded_lookup.h"

namespace emblem {

MakeRankTables rank_tables_of(const Context& context, const World& world,
                              const RankExchange& exchange) {
  return [context, &world, exchange](const TablePlan& plan) {
    RankTables made;
    std::vector<ShardedTable> tables;
    std::vector<TableSettings> parts;
    for (TableSettings settings : plan.tables) {
      settings.bins = bins_of_limits(settings);
      const TableShards shards =
          in_whole_bins(world.plan != nullptr ? world.plan->of(settings.name)
                                              : over_all_ranks(settings.name, world.size()),
                        settings.bins);
      parts.push_back(settings_of_part(settings, shards, world.rank()));
      tables.push_back({settings, shards, nullptr});
    }
    require_table_memory(context, parts);
    for (size_t t = 0; t < parts.size(); ++t) {
      made.tables.push_back(make_table(context, parts[t]));
      tables[t].local = made.tables.back().get();
    }
    std::vector<ShardedFeature> features;
    for (const TableUse& use : plan.uses)
      features.push_back({static_cast<size_t>(use.table), use.pooling});
    made.lookup = make_sharded_lookup(context, tables, features,
                                      {.host = world.ranks,
                                       .device = &world.device_ranks(),
                                       .slots = world.slots(),
                                       .precision = exchange.precision,
                                       .host_dedup = exchange.host_dedup},
                                      plan.lookup);
    return made;
  };
}

}  // namespace emblem
