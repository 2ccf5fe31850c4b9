#include "ps/tables/served_model.h"

#include <algorithm>
#include <ranges>

#include "core/text/joined.h"

namespace emblem {

ServedTable& ServedModel::table(const std::string& name) const {
  const auto found = tables_.find(name);
  if (found != tables_.end()) return *found->second;
  throw Error(ErrorCode::kNotFound, cat("model ", name_, ", version ", version_, " has no table ",
                                        name, "; it has: ", joined(std::views::keys(tables_))));
}

void ServedModel::note_update(int64_t created_unix_ms, uint64_t rows) {
  int64_t newest = newest_unix_ms_.load(std::memory_order_relaxed);
  while (newest < created_unix_ms && !newest_unix_ms_.compare_exchange_weak(
                                         newest, created_unix_ms, std::memory_order_relaxed)) {
  }
  updates_.fetch_add(1, std::memory_order_relaxed);
  rows_.fetch_add(rows, std::memory_order_relaxed);
}

void ServedModel::set_promoting(bool promotes) {
  for (const auto& [name, table] : tables_) table->set_promoting(promotes);
}

Freshness ServedModel::freshness() const {
  Freshness freshness{.sequence = sequence(),
                      .updates = updates_.load(std::memory_order_relaxed),
                      .rows = rows_.load(std::memory_order_relaxed),
                      .errors = errors_.load(std::memory_order_relaxed),
                      .unchecked = unchecked_.load(std::memory_order_relaxed),
                      .missing_deltas = missing_deltas_.load(std::memory_order_relaxed)};
  const int64_t newest = newest_unix_ms_.load(std::memory_order_relaxed);
  if (newest == INT64_MIN) return freshness;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const int64_t now_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  freshness.age_seconds = std::max(0.0, static_cast<double>(now_ms - newest) / 1000.0);
  return freshness;
}

}  // namespace emblem
