// ps/tables/served_table.h - a table as requests see it: rows from the fastest tier that has them.
//
//   L1  a cache on a device (none on a CPU)
//   L2  memory of this process, or Redis
//   L3  RocksDB
//
// A lookup deduplicates its keys where asking costs something, asks tier after tier for what is
// still missing, and reads the default row for keys that no tier has, which are counted. A tier
// that cannot be reached is counted as an error and skipped as long as a tier below can answer;
// otherwise the lookup fails with kUnavailable. L3 holds all rows of a model, L2 those that fit.
// Where Redis has lost partitions and there is no L3, a fallback may give the rows of the files.
//
// Thread-safe. Reads never wait for updates.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "embedding/parts.h"
#include "embedding/settings.h"
#include "store/kv_store.h"
#include "store/memory_store.h"

namespace emblem {

// Where rows come from while the tier that should have them is filled again and no tier below has
// them. Thread-safe.
class RowFallback {
 public:
  virtual ~RowFallback() = default;

  // Whether it can say what the row of a key is, or that there is none.
  virtual bool covers(int64_t key) const = 0;
  // As KvTable::fetch; of keys that it covers.
  virtual int64_t fetch(std::span<const int64_t> keys, std::span<float> rows,
                        std::span<uint8_t> found) const = 0;
};

// What a tier of a table did so far: counted without locks, read at any time.
struct TierCounts {
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t nanoseconds = 0;  // in lookups; where several tables are read together, a share of it
  uint64_t errors = 0;       // lookups that the tier could not answer
};

// Threads on different CPUs count in different places, so that counting costs no more than an
// addition to memory at hand.
class TierCounters {
 public:
  // `cpu` is any number that differs between threads that run at the same time.
  void add(unsigned cpu, const TierCounts& counts) {
    Lane& lane = lanes_[cpu % lanes_.size()];
    if (counts.hits != 0) lane.hits.fetch_add(counts.hits, std::memory_order_relaxed);
    if (counts.misses != 0) lane.misses.fetch_add(counts.misses, std::memory_order_relaxed);
    if (counts.nanoseconds != 0) {
      lane.nanoseconds.fetch_add(counts.nanoseconds, std::memory_order_relaxed);
    }
    if (counts.errors != 0) lane.errors.fetch_add(counts.errors, std::memory_order_relaxed);
  }
  TierCounts read() const {
    TierCounts sum;
    for (const Lane& lane : lanes_) {
      sum.hits += lane.hits.load(std::memory_order_relaxed);
      sum.misses += lane.misses.load(std::memory_order_relaxed);
      sum.nanoseconds += lane.nanoseconds.load(std::memory_order_relaxed);
      sum.errors += lane.errors.load(std::memory_order_relaxed);
    }
    return sum;
  }

 private:
  struct alignas(64) Lane {
    std::atomic<uint64_t> hits{0}, misses{0}, nanoseconds{0}, errors{0};
  };
  std::array<Lane, 16> lanes_;
};

// A cache of a served table's rows, notified of changes.
class TableCache {
 public:
  virtual ~TableCache() = default;
  // Rows [keys, dim] that have changed below: those that are in the cache change too. Thread-safe.
  virtual void update(std::span<const int64_t> keys, std::span<const float> rows) = 0;
  // Reads all rows that are in the cache again from below.
  virtual void refresh() = 0;
};

class PromotionQueue;

struct ServedTableSettings {
  std::string name;  // hps_et.MODEL.TABLE
  int64_t dim = 0;
  // What a key reads as that no tier has: drawn as in training's evaluation
  // (TableSettings::missing).
  Initializer missing = {Initializer::Kind::kConstant, 0.0f, 0.0f};
  uint64_t seed = 1;
  bool cache_missed = false;  // rows found in L3 are put into L2
  bool update_l2 = true;      // whether updates go there
  bool update_l3 = true;
  PartFilter filter = {};  // rows that are served here; updates of others are ignored
};

// Where an update goes; by default everywhere.
struct UpdateTiers {
  bool l3 = true, l2 = true, caches = true;
};

class ServedTable : public std::enable_shared_from_this<ServedTable> {
 public:
  // Either tier may be null, not both. `promotions` may be null: then nothing is put into L2 by
  // lookups; else it must outlive the table.
  ServedTable(ServedTableSettings settings, std::shared_ptr<KvTable> l2,
              std::shared_ptr<KvTable> l3, PromotionQueue* promotions = nullptr);

  const ServedTableSettings& settings() const { return settings_; }
  int64_t dim() const { return settings_.dim; }
  KvTable* l2() const { return l2_.get(); }
  KvTable* l3() const { return l3_.get(); }
  // L2, when its rows can be read in place.
  const MemoryTable* in_place() const { return memory_; }

  // ---- reading (ps/tables/table_fetch.h asks all tiers) ----
  // rows[i] = the row of keys[i] in L3 and found[i] = 1, or found[i] = 0 when it has none. rows is
  // [keys, dim]; keys should be different, and such that L2 does not have. Without L3, nothing is
  // found. A row with NaN or infinite values is counted as refused and not found. Throws
  // kUnavailable.
  void fetch_from_l3(std::span<const int64_t> keys, std::span<float> rows,
                     std::span<uint8_t> found);

  // ---- a loss in L2 ----
  // Gives rows while L2 is filled again; null: none is needed.
  void set_fallback(std::shared_ptr<const RowFallback> fallback);
  std::shared_ptr<const RowFallback> fallback() const;
  // As fetch_from_l3, of keys that L2 has lost: from L3 or the fallback. Throws kUnavailable when
  // neither can say what the rows are.
  void fetch_lost(std::span<const int64_t> keys, std::span<float> rows, std::span<uint8_t> found);
  // Partitions of L2 that are lost now, and that were filled again so far.
  void set_lost_parts(size_t parts) { lost_parts_.store(parts, std::memory_order_relaxed); }
  size_t lost_parts() const { return lost_parts_.load(std::memory_order_relaxed); }
  void count_refilled(uint64_t parts) {
    parts_refilled_.fetch_add(parts, std::memory_order_relaxed);
  }
  uint64_t parts_refilled() const { return parts_refilled_.load(std::memory_order_relaxed); }
  uint64_t rows_damaged() const;  // that lookups found in L2

  // ---- changes ----
  // Rows that are new or have new values, into L3, then L2, then caches. Rows with NaN or infinite
  // values are refused: logged, counted and skipped. Throws kUnavailable when a tier cannot take
  // the others; the same update may be given again.
  void apply(std::span<const int64_t> keys, std::span<const float> rows, UpdateTiers tiers = {});
  // Lets `fill` write all rows into L2; updates wait meanwhile.
  void refill_l2(const std::function<void(KvTable&)>& fill);
  // Reads all rows of L2 again from L3, where there are both, and those of caches from these; a
  // batch at a time.
  void refresh();
  void refresh_caches();  // those alone
  // Counts updates; odd while one is under way.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  // Keeps updates away for as long as the lock is held, which it is only if none came since
  // `version`.
  std::unique_lock<std::mutex> hold_if_still(uint64_t version);
  // Updates go there too, after the tiers below, until it is removed; it is not used after that.
  void add_cache(TableCache* cache);
  void remove_cache(TableCache* cache);
  // Puts rows that were read from L3 into L2 where it has none, unless an update may have come
  // since `version`.
  void promote(std::span<const int64_t> keys, std::span<const float> rows, uint64_t version);
  // Off while L2, which other servers update too, is ahead of L3.
  void set_promoting(bool promotes) { promotes_.store(promotes, std::memory_order_relaxed); }

  // ---- counts ----
  TierCounts l1_counts() const { return l1_counters_.read(); }  // lookups of caches on devices
  TierCounts l2_counts() const { return l2_counters_.read(); }
  TierCounts l3_counts() const { return l3_counters_.read(); }
  TierCounts fallback_counts() const { return fallback_counters_.read(); }
  uint64_t missing_everywhere() const { return missing_counters_.read().misses; }
  uint64_t rows_updated() const { return rows_updated_.load(std::memory_order_relaxed); }
  uint64_t rows_refused() const { return rows_refused_.load(std::memory_order_relaxed); }
  // Rows of any origin that are NaN or infinite and so are not served.
  void count_refused(uint64_t rows) { rows_refused_.fetch_add(rows, std::memory_order_relaxed); }
  uint64_t rows_evicted() const { return l2_ == nullptr ? 0 : l2_->evicted(); }  // from L2
  void count_l1(unsigned cpu, const TierCounts& counts) { l1_counters_.add(cpu, counts); }
  void count_l2(unsigned cpu, const TierCounts& counts) { l2_counters_.add(cpu, counts); }
  void count_missing(unsigned cpu, uint64_t keys) {
    if (keys != 0) missing_counters_.add(cpu, {.misses = keys});
  }

 private:
  void apply_all(std::span<const int64_t> keys, std::span<const float> rows, UpdateTiers tiers);
  void refresh_l2();
  int64_t refuse_read_rows(std::span<const float> rows, std::span<uint8_t> found);
  void warn_of_lost_rows();

  ServedTableSettings settings_;
  std::shared_ptr<KvTable> l2_, l3_;
  const MemoryTable* memory_;
  PromotionQueue* promotions_;
  TierCounters l1_counters_, l2_counters_, l3_counters_, fallback_counters_, missing_counters_;
  mutable std::mutex fallback_mutex_;
  std::shared_ptr<const RowFallback> fallback_;
  std::atomic<size_t> lost_parts_{0};
  std::atomic<uint64_t> parts_refilled_{0};
  std::atomic<uint64_t> rows_updated_{0}, rows_refused_{0};
  std::atomic<bool> promotes_{true};
  bool warned_of_lost_rows_ = false;  // with writer_ held
  std::mutex writer_;
  std::mutex caches_in_use_;  // outside of writer_; both to change caches_, either to read it
  std::vector<TableCache*> caches_;
  // Odd while an update is under way: rows read from L3 then are as good as unknown for L2.
  std::atomic<uint64_t> version_{0};
};

}  // namespace emblem
