#include "shard/sharded_lookup.h"

#include <algorithm>
#include <cmath>

#include "embedding/bins.h"
#include "shard/cuda/device_sharded_lookup.h"
#include "shard/host_sharded_lookup.h"

namespace emblem {
namespace {

// The number of `total` keys whose part is among the held ones: never fewer than are likely to
// be. Keys are spread by a hash, so their number varies by a few times its square root.
int64_t share_of(int64_t total, PartRange held, bool evicts) {
  if (total == 0 || held.is_everything()) return total;
  const double mean = static_cast<double>(total) * held.count() / kParts;
  const double slack = evicts ? 0.0 : 6.0 * std::sqrt(mean) + 16.0;
  return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(mean + slack)), 1, total);
}

void take_columns(const TableSettings& table, const TableShards& shards, int rank,
                  TableSettings& part) {
  const auto slices = static_cast<int64_t>(shards.columns.size());
  EMBLEM_REQUIRE(slices <= table.dim,
                 "the plan (train_config.plan_path) cuts the columns of table ", table.name,
                 " into ", slices, " slices, but it has ", table.dim, "; name fewer ranks");
  bool needs_rows = false;
  visit_table_rule(table.rule,
                   [&](const auto& rule) { needs_rows = std::decay_t<decltype(rule)>::kRowWise; });
  EMBLEM_REQUIRE(!needs_rows, "the plan (train_config.plan_path) cuts table ", table.name,
                 " into slices of columns, but ", name_of(table.rule),
                 " needs whole rows; use 'rows' or 'rank N'");
  const int64_t slice = shards.slice_of(rank);
  const int64_t mine = slice < slices ? slice : 0;  // without a slice it holds no rows
  part.columns = {first_column_of(table, shards, mine), table.dim};
  part.dim = first_column_of(table, shards, mine + 1) - part.columns.first;
  part.initializer.first = part.missing.first = part.columns.first;
}

}  // namespace

int64_t first_column_of(const TableSettings& table, const TableShards& shards, int64_t slice) {
  return slice * table.dim / static_cast<int64_t>(shards.columns.size());
}

TableSettings settings_of_part(const TableSettings& table, const TableShards& shards, int rank) {
  TableSettings part = table;
  part.held = shards.held_by(rank);
  if (!shards.columns.empty()) take_columns(table, shards, rank, part);
  if (table.kind == TableKind::kStatic) return part;
  const bool evicts = table.eviction != Eviction::kNone;
  part.capacity = share_of(table.capacity, part.held, evicts);
  part.initial_capacity = share_of(table.initial_capacity, part.held, evicts);
  part.admission_capacity = share_of(table.admission_capacity, part.held, true);
  if (table.bins == 0) return part;
  const auto share_of_bins = [&](int64_t limit) {
    return limit / table.bins * held_bins(part).count;
  };
  // At least one row: 0 would be no limit.
  if (evicts && table.capacity > 0)
    part.capacity = std::max<int64_t>(1, share_of_bins(table.capacity));
  part.admission_capacity = share_of_bins(table.most_waiting());
  return part;
}

std::unique_ptr<Lookup> make_sharded_lookup(const Context& context,
                                            std::span<const ShardedTable> tables,
                                            std::span<const ShardedFeature> features,
                                            const ShardRanks& ranks,
                                            const LookupSettings& settings) {
  return dispatch(
      context.device,
      [&]() -> std::unique_ptr<Lookup> {
        EMBLEM_REQUIRE(settings.dedup, "lookup: a CPU asks for equal keys once; dedup is for GPUs");
        return std::make_unique<HostShardedLookup>(tables, features, ranks);
      },
      [&] { return cuda::make_sharded_lookup(context, tables, features, ranks, settings); });
}

}  // namespace emblem
