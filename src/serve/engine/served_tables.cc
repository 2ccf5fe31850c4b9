#include "serve/engine/served_tables.h"

#include <fmt/format.h>

#include <algorithm>

#include "serve/protocol/metric_label.h"

namespace emblem {

ServedTables::ServedTables(ParameterServer& server, const std::string& model, int64_t version,
                           std::span<const TableSource> tables, int64_t updates_included)
    : server_(server), model_(server.load_model(model, version, tables, updates_included)) {}

ServedTables::ServedTables(ParameterServer& server, const std::string& model, int64_t version)
    : server_(server), model_(server.load_model(model, version)) {}

ServedTables::~ServedTables() {
  if (server_.find(model_->name(), model_->version()) == model_)
    server_.unload_model(model_->name(), model_->version());
}

bool ServedTables::may_block() const {
  return std::any_of(model_->tables().begin(), model_->tables().end(), [](const auto& table) {
    return table.second->in_place() == nullptr || table.second->l3() != nullptr;
  });
}

std::string ServedTables::metrics(const std::string& labels) const {
  std::string text;
  const auto add = [&](const char* name, const std::string& more, auto value) {
    text += fmt::format("{}{{{}{}}} {}\n", name, labels, more, value);
  };
  for (const auto& [plain_name, table] : model_->tables()) {
    const std::string name = escaped_label(plain_name);
    const auto tier = [&](const char* level, const TierCounts& counts) {
      const std::string more = fmt::format(",table=\"{}\",tier=\"{}\"", name, level);
      add("emblem_tier_hits", more, counts.hits);
      add("emblem_tier_misses", more, counts.misses);
      add("emblem_tier_errors", more, counts.errors);
      add("emblem_tier_duration_us", more, counts.nanoseconds / 1000);
      if (counts.hits + counts.misses > 0) {
        add("emblem_tier_hit_rate", more,
            static_cast<double>(counts.hits) / static_cast<double>(counts.hits + counts.misses));
      }
    };
    const TierCounts l1 = table->l1_counts();
    if (l1.hits + l1.misses > 0) tier("L1", l1);
    if (table->l2() != nullptr) tier("L2", table->l2_counts());
    if (table->l3() != nullptr) tier("L3", table->l3_counts());
    const std::string more = fmt::format(",table=\"{}\"", name);
    add("emblem_missing_keys", more, table->missing_everywhere());
    add("emblem_rows_updated", more, table->rows_updated());
    add("emblem_rows_evicted", more, table->rows_evicted());
  }
  const Freshness fresh = model_->freshness();
  add("emblem_updates_applied", "", fresh.updates);
  add("emblem_update_errors", "", fresh.errors);
  add("emblem_update_sequence", "", fresh.sequence);
  add("emblem_deltas_missing", "", fresh.missing_deltas);
  if (fresh.age_seconds) add("emblem_update_age_seconds", "", *fresh.age_seconds);
  return text;
}

}  // namespace emblem
