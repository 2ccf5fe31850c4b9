#include "serve/engine/hps/served_tables.h"

#include <fmt/format.h>

#include <algorithm>

#include "serve/protocol/metric_label.h"

namespace emblem {
namespace {

constexpr const char* kDescriptions =
    "# HELP emblem_tier_hits_total Keys that the tier had\n"
    "# TYPE emblem_tier_hits_total counter\n"
    "# HELP emblem_tier_misses_total Keys that the tier did not have\n"
    "# TYPE emblem_tier_misses_total counter\n"
    "# HELP emblem_tier_errors_total Lookups that the tier failed\n"
    "# TYPE emblem_tier_errors_total counter\n"
    "# HELP emblem_tier_duration_seconds_total Time spent in lookups of the tier\n"
    "# TYPE emblem_tier_duration_seconds_total counter\n"
    "# HELP emblem_tier_hit_rate Share of the keys that the tier had\n"
    "# TYPE emblem_tier_hit_rate gauge\n"
    "# HELP emblem_missing_keys_total Keys that no tier had; they read as the default row\n"
    "# TYPE emblem_missing_keys_total counter\n"
    "# HELP emblem_rows_updated_total Rows that updates changed\n"
    "# TYPE emblem_rows_updated_total counter\n"
    "# HELP emblem_rows_refused_total Rows that are NaN or infinite and are not served\n"
    "# TYPE emblem_rows_refused_total counter\n"
    "# HELP emblem_rows_evicted_total Rows that were removed to make room for others\n"
    "# TYPE emblem_rows_evicted_total counter\n"
    "# HELP emblem_rows_damaged_total Rows that lookups found damaged in Redis\n"
    "# TYPE emblem_rows_damaged_total counter\n"
    "# HELP emblem_redis_partitions_lost Partitions of the table that Redis has lost, by now\n"
    "# TYPE emblem_redis_partitions_lost gauge\n"
    "# HELP emblem_redis_partitions_refilled_total Partitions that this server filled again\n"
    "# TYPE emblem_redis_partitions_refilled_total counter\n"
    "# HELP emblem_updates_applied_total Deltas and messages that were applied\n"
    "# TYPE emblem_updates_applied_total counter\n"
    "# HELP emblem_updates_unchecked_total Deltas without checksums that were applied\n"
    "# TYPE emblem_updates_unchecked_total counter\n"
    "# HELP emblem_update_errors_total Attempts to apply an update that failed\n"
    "# TYPE emblem_update_errors_total counter\n"
    "# HELP emblem_update_sequence Number of the newest delta that was applied\n"
    "# TYPE emblem_update_sequence gauge\n"
    "# HELP emblem_deltas_missing_total Deltas that were removed before they could be applied\n"
    "# TYPE emblem_deltas_missing_total counter\n"
    "# HELP emblem_update_age_seconds Time since the newest applied update was made\n"
    "# TYPE emblem_update_age_seconds gauge\n";

}  // namespace

ServedTables::ServedTables(ParameterServer& server, const std::string& model, int64_t version,
                           std::span<const TableSource> tables, int64_t updates_included)
    : server_(&server), model_(server.load_model(model, version, tables, updates_included)) {}

ServedTables::ServedTables(ParameterServer& server, const std::string& model, int64_t version)
    : server_(&server), model_(server.load_model(model, version)) {}

ServedTables::~ServedTables() {
  if (server_ != nullptr && server_->find(model_->name(), model_->version()) == model_)
    server_->unload_model(model_->name(), model_->version());
}

bool ServedTables::may_block() const {
  return std::any_of(model_->tables().begin(), model_->tables().end(), [](const auto& table) {
    return table.second->in_place() == nullptr || table.second->l3() != nullptr;
  });
}

std::string ServedTables::problem() const {
  if (server_ == nullptr || server_->config().volatile_db.ready_while_rows_are_lost) return {};
  for (const auto& [name, table] : model_->tables()) {
    if (table->lost_parts() > 0)
      return cat("redis has lost rows of table ", name, ", which are being restored");
  }
  return {};
}

std::string ServedTables::metrics(const std::string& labels) const {
  std::string text = kDescriptions;
  const auto add = [&](const char* name, const std::string& more, auto value) {
    text += fmt::format("{}{{{}{}}} {}\n", name, labels, more, value);
  };
  for (const auto& [plain_name, table] : model_->tables()) {
    const std::string name = escaped_label(plain_name);
    const auto tier = [&](const char* level, const TierCounts& counts) {
      const std::string more = fmt::format(",table=\"{}\",tier=\"{}\"", name, level);
      add("emblem_tier_hits_total", more, counts.hits);
      add("emblem_tier_misses_total", more, counts.misses);
      add("emblem_tier_errors_total", more, counts.errors);
      add("emblem_tier_duration_seconds_total", more,
          static_cast<double>(counts.nanoseconds) * 1e-9);
      if (counts.hits + counts.misses > 0) {
        add("emblem_tier_hit_rate", more,
            static_cast<double>(counts.hits) / static_cast<double>(counts.hits + counts.misses));
      }
    };
    const TierCounts l1 = table->l1_counts();
    if (l1.hits + l1.misses > 0) tier("L1", l1);
    if (table->l2() != nullptr) tier("L2", table->l2_counts());
    if (table->l3() != nullptr) tier("L3", table->l3_counts());
    const TierCounts files = table->fallback_counts();
    if (files.hits + files.misses > 0) tier("files", files);
    const std::string more = fmt::format(",table=\"{}\"", name);
    add("emblem_missing_keys_total", more, table->missing_everywhere());
    add("emblem_rows_updated_total", more, table->rows_updated());
    add("emblem_rows_refused_total", more, table->rows_refused());
    add("emblem_rows_evicted_total", more, table->rows_evicted());
    add("emblem_rows_damaged_total", more, table->rows_damaged());
    add("emblem_redis_partitions_lost", more, table->lost_parts());
    add("emblem_redis_partitions_refilled_total", more, table->parts_refilled());
  }
  const Freshness fresh = model_->freshness();
  add("emblem_updates_applied_total", "", fresh.updates);
  add("emblem_updates_unchecked_total", "", fresh.unchecked);
  add("emblem_update_errors_total", "", fresh.errors);
  add("emblem_update_sequence", "", fresh.sequence);
  add("emblem_deltas_missing_total", "", fresh.missing_deltas);
  if (fresh.age_seconds) add("emblem_update_age_seconds", "", *fresh.age_seconds);
  return text;
}

}  // namespace emblem
