// ps/tables/served_model.h - one version of a model's tables, for as long as it is used.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "ps/tables/served_table.h"

namespace emblem {

// How current the rows are.
struct Freshness {
  int64_t sequence = 0;                 // number of the newest delta that was applied; 0: none
  uint64_t updates = 0;                 // deltas and messages that were applied
  uint64_t rows = 0;                    // that came with them
  uint64_t errors = 0;                  // attempts that failed
  uint64_t unchecked = 0;               // updates without checksums that were applied
  uint64_t missing_deltas = 0;          // that were removed before they could be applied
  std::optional<double> age_seconds{};  // since the newest applied update was made; none: no update
};

// Thread-safe.
class ServedModel {
 public:
  ServedModel(std::string name, int64_t version) : name_(std::move(name)), version_(version) {}

  const std::string& name() const { return name_; }
  int64_t version() const { return version_; }
  using Tables = std::map<std::string, std::shared_ptr<ServedTable>>;
  const Tables& tables() const { return tables_; }
  void set_tables(Tables tables) { tables_ = std::move(tables); }  // before other threads see it
  // Throws kNotFound.
  ServedTable& table(const std::string& name) const;

  // ---- updates; called by what applies them, in order ----
  int64_t sequence() const { return sequence_.load(std::memory_order_acquire); }
  void set_sequence(int64_t sequence) { sequence_.store(sequence, std::memory_order_release); }
  void note_update(int64_t created_unix_ms, uint64_t rows);
  void note_error() { errors_.fetch_add(1, std::memory_order_relaxed); }
  void note_unchecked(uint64_t updates) {
    unchecked_.fetch_add(updates, std::memory_order_relaxed);
  }
  void note_gap(uint64_t deltas) { missing_deltas_.fetch_add(deltas, std::memory_order_relaxed); }
  void set_promoting(bool promotes);  // ServedTable::set_promoting of all tables
  Freshness freshness() const;

 private:
  std::string name_;
  int64_t version_;
  Tables tables_;
  std::atomic<int64_t> sequence_{0};
  std::atomic<int64_t> newest_unix_ms_{INT64_MIN};
  std::atomic<uint64_t> updates_{0}, rows_{0}, errors_{0}, unchecked_{0}, missing_deltas_{0};
};

}  // namespace emblem
