#include "train/rank_tables.h"

#include "embedding/bins.h"
#include "shard/sharded_lookup.h"

namespace emblem {

MakeRankTables rank_tables_of(const Context& context, const World& world,
                              const RankExchange& exchange) {
  return [context, &world, exchange](const TablePlan& plan) {
    RankTables made;
    std::vector<ShardedTable> tables;
    for (TableSettings settings : plan.tables) {
      settings.bins = bins_of_limits(settings);
      const TableShards shards =
          in_whole_bins(world.plan != nullptr ? world.plan->of(settings.name)
                                              : over_all_ranks(settings.name, world.size()),
                        settings.bins);
      made.tables.push_back(make_table(context, settings_of_part(settings, shards, world.rank())));
      tables.push_back({settings, shards, made.tables.back().get()});
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
