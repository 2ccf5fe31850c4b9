#include "plan/cost/workload.h"

#include <algorithm>

#include "config/check/sharding_types.h"
#include "model/layers/inputs.h"
#include "model/lookup/memory_estimate.h"
#include "model/lookup/table_config.h"
#include "model/lookup/table_placement.h"
#include "model/models.h"
#include "nn/graph.h"

namespace emblem {
namespace {

constexpr size_t kHottest = 100;
constexpr double kUnlimitedKeys = 1e7;  // keys of a dynamic table without a capacity, without data
constexpr int kDoublings = 12;          // doublings of the rows for which a power law is evaluated

AllowedHolders allowed_of(const ShardingKinds& kinds) {
  return {.rows = kinds.row_wise,
          .one_rank = kinds.table_wise,
          .columns = kinds.column_wise,
          .replicated = kinds.data_parallel};
}

void restrict(WorkloadTable& table, const FeatureSpec& feature, const config::TrainConfig& train) {
  const AllowedHolders own = allowed_of(sharding_kinds_of(feature.config, train));
  const AllowedHolders both = {.rows = table.allowed.rows && own.rows,
                               .one_rank = table.allowed.one_rank && own.one_rank,
                               .columns = table.allowed.columns && own.columns,
                               .replicated = table.allowed.replicated && own.replicated};
  EMBLEM_REQUIRE(both.any(), "feature ", feature.name, " allows table ", table.settings.name,
                 " to be ", to_text(own), ", other features of the table ", to_text(table.allowed),
                 "; give them the same embedding_constraints");
  table.allowed = both;
}

double most_keys_of(const TableSettings& settings) {
  return settings.kind == TableKind::kStatic || settings.eviction != Eviction::kNone
             ? static_cast<double>(settings.capacity)
             : 0.0;
}

}  // namespace

Workload workload_of(const config::PipelineConfig& config, const FeatureLayout& layout,
                     int64_t rows, int64_t shards) {
  Workload workload{.rows = rows, .shards = shards};
  Graph graph(config.train_config().seed());
  ModelInputs inputs(graph, config, layout, wide_dim_of(config.model_config()));
  build_model(graph, inputs);
  int64_t table_bytes = 0;
  for (const LookupGroup& lookup : inputs.lookups()) {
    const LookupTables made = tables_of_lookup(config, lookup);
    const size_t first = workload.tables.size();
    for (const TableSettings& settings : made.tables) {
      workload.tables.push_back({.settings = settings,
                                 .lookup = workload.lookups,
                                 .is_of_elements = lookup.sequence >= 0 || lookup.is_stacked});
      table_bytes += table_bytes_of(settings);
    }
    for (size_t f = 0; f < lookup.features.size(); ++f) {
      const TableUse& use = made.uses[std::min(f, made.uses.size() - 1)];
      WorkloadTable& table = workload.tables[first + static_cast<size_t>(use.table)];
      table.features.push_back(lookup.features[f].feature->sparse_index);
      restrict(table, *lookup.features[f].feature, config.train_config());
    }
    ++workload.lookups;
  }
  for (WorkloadTable& table : workload.tables)  // one column is one slice
    table.allowed.one_rank |= table.allowed.columns && table.settings.dim == 1;
  const std::string& precision = config.train_config().exchange_precision();
  if (precision == "BF16" || precision == "FP16") workload.value_bytes = 2;
  for (const Parameter& parameter : graph.parameter_list())
    workload.dense_values += parameter.rows * parameter.cols;
  workload.dense_bytes = estimate_training_bytes(config, layout).of(rows, 2 * shards) - table_bytes;
  return workload;
}

ShardPlan plan_held(const Workload& workload, const HeldTables& held, int ranks) {
  ShardPlan plan{.ranks = ranks};
  int next = 0;
  for (size_t t = 0; t < workload.tables.size(); ++t) {
    const WorkloadTable& table = workload.tables[t];
    const std::string& name = table.settings.name;
    TableShards& shards = plan.tables.emplace_back(over_all_ranks(name, ranks));
    if ((held.every_second && t % 2 == 1) || table.expected_keys > held.most_keys) continue;
    switch (held.holding) {
      case Holding::kRows:
        break;
      case Holding::kReplicated:
        shards = on_every_rank(name);
        break;
      case Holding::kRank:
      case Holding::kPooledRank:
        shards = on_rank(name, next++ % ranks, ranks);
        shards.pooled_at_owner = held.holding == Holding::kPooledRank;
        break;
      case Holding::kColumns:
      case Holding::kPooledColumns:
        if (table.slices(ranks) == 1) break;
        shards = by_columns(name, ranks_from(0, table.slices(ranks), ranks), ranks);
        shards.pooled_at_owner = held.holding == Holding::kPooledColumns;
        break;
    }
  }
  return plan;
}

void WorkloadSampler::add(const Workload& workload, const Batch& batch) {
  for (size_t t = 0; t < workload.tables.size(); ++t) {
    for (const int64_t feature : workload.tables[t].features) {
      const HostVector<int64_t>& keys = batch.sparse[static_cast<size_t>(feature)].keys;
      counters_[t].add({keys.data(), keys.size()});
    }
    counters_[t].end_rows(batch.rows);
  }
  ++batches_;
}

void WorkloadSampler::finish(Workload& workload, double epoch_rows) const {
  EMBLEM_REQUIRE(batches_ > 0,
                 "there are no rows to sample keys from; use --sample 0 for keys by "
                 "a power law");
  int64_t rows = 0;
  for (size_t t = 0; t < workload.tables.size(); ++t) {
    WorkloadTable& table = workload.tables[t];
    rows = counters_[t].rows();
    const double most = most_keys_of(table.settings);
    table.keys = counters_[t].distinct(most);
    table.hottest_share = counters_[t].share_of_hottest(kHottest);
    table.expected_keys =
        most > 0 ? most
                 : std::max(static_cast<double>(table.settings.initial_capacity),
                            table.keys.at(std::max(epoch_rows, static_cast<double>(rows))));
  }
  workload.keys_from = cat(batches_, " batches, ", rows, " rows of the data");
}

void assume_power_law(Workload& workload, double alpha, double keys_per_row) {
  for (WorkloadTable& table : workload.tables) {
    const double keys =
        table.settings.capacity > 0 ? static_cast<double>(table.settings.capacity) : kUnlimitedKeys;
    table.keys = power_law_keys(keys, keys_per_row * static_cast<double>(table.features.size()),
                                alpha, static_cast<double>(workload.rows), kDoublings);
    table.expected_keys = table.settings.capacity > 0 ? keys : table.keys.at(1e12);
  }
  workload.keys_from = cat("a power law, alpha ", alpha, " (assumed)");
}

}  // namespace emblem
