#include "ps/tables/served_table.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/system/log.h"
#include "ps/tables/filtered_rows.h"
#include "ps/tables/finite_rows.h"
#include "ps/tables/promotion_queue.h"
#include "store/partitioned_table.h"

namespace emblem {
namespace {

constexpr int64_t kRefreshRows = 4096;  // at a time

class Stopwatch {
 public:
  uint64_t nanoseconds() const {
    return static_cast<uint64_t>(
        std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin_).count());
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

unsigned this_cpu() { return static_cast<unsigned>(sched_getcpu()); }

}  // namespace

ServedTable::ServedTable(ServedTableSettings settings, std::shared_ptr<KvTable> l2,
                         std::shared_ptr<KvTable> l3, PromotionQueue* promotions)
    : settings_(std::move(settings)),
      l2_(std::move(l2)),
      l3_(std::move(l3)),
      memory_(dynamic_cast<const MemoryTable*>(l2_.get())),
      promotions_(promotions) {
  EMBLEM_REQUIRE(l2_ != nullptr || l3_ != nullptr, "table ", settings_.name,
                 ": there is no tier to serve it from");
  for (const KvTable* tier : {l2_.get(), l3_.get()}) {
    EMBLEM_REQUIRE(tier == nullptr || tier->dim() == dim(), "table ", settings_.name, ": ",
                   tier->name(), " holds rows of dimension ", tier->dim(), ", not ", dim());
  }
}

void ServedTable::fetch_from_l3(std::span<const int64_t> keys, std::span<float> rows,
                                std::span<uint8_t> found) {
  if (l3_ == nullptr) {
    std::fill(found.begin(), found.end(), uint8_t{0});
    return;
  }
  const uint64_t version = version_.load(std::memory_order_acquire);
  int64_t hits = 0;
  try {
    const Stopwatch watch;
    hits = l3_->fetch(keys, rows, found);
    hits -= refuse_read_rows(rows, found);
    l3_counters_.add(this_cpu(), {.hits = static_cast<uint64_t>(hits),
                                  .misses = keys.size() - static_cast<uint64_t>(hits),
                                  .nanoseconds = watch.nanoseconds()});
  } catch (const Error&) {
    l3_counters_.add(this_cpu(), {.errors = 1});
    throw;
  }
  if (hits == 0 || !settings_.cache_missed || promotions_ == nullptr || l2_ == nullptr) return;
  promotions_->add(weak_from_this(), dim(), keys, rows, found, version);
}

void ServedTable::set_fallback(std::shared_ptr<const RowFallback> fallback) {
  std::lock_guard lock(fallback_mutex_);
  fallback_.swap(fallback);
}  // the one before goes after the lock is released

std::shared_ptr<const RowFallback> ServedTable::fallback() const {
  std::lock_guard lock(fallback_mutex_);
  return fallback_;
}

uint64_t ServedTable::rows_damaged() const {
  const auto* table = dynamic_cast<const PartitionedTable*>(l2_.get());
  return table == nullptr ? 0 : table->damaged();
}

void ServedTable::fetch_lost(std::span<const int64_t> keys, std::span<float> rows,
                             std::span<uint8_t> found) {
  if (l3_ != nullptr) return fetch_from_l3(keys, rows, found);
  const auto files = fallback();
  if (files == nullptr ||
      !std::all_of(keys.begin(), keys.end(), [&](int64_t key) { return files->covers(key); })) {
    throw Error(ErrorCode::kUnavailable, cat("table ", settings_.name,
                                             ": redis lost or damaged rows; they are being "
                                             "restored; try again later"));
  }
  const Stopwatch watch;
  const auto hits = static_cast<uint64_t>(files->fetch(keys, rows, found));
  fallback_counters_.add(
      this_cpu(), {.hits = hits, .misses = keys.size() - hits, .nanoseconds = watch.nanoseconds()});
}

// Such rows were written by another program: Emblem writes none.
int64_t ServedTable::refuse_read_rows(std::span<const float> rows, std::span<uint8_t> found) {
  int64_t refused = 0;
  const auto width = static_cast<size_t>(dim());
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] == 0 || are_finite(rows.subspan(i * width, width))) continue;
    found[i] = 0;
    ++refused;
  }
  if (refused > 0) count_refused(static_cast<uint64_t>(refused));
  return refused;
}

void ServedTable::apply(std::span<const int64_t> keys, std::span<const float> rows,
                        UpdateTiers tiers) {
  const FiniteRows finite(keys, rows);
  if (finite.refused() > 0) {
    count_refused(finite.refused());
    log_error(cat("table ", settings_.name, ": ", finite.refused(), " of ", keys.size(),
                  " rows of an update are NaN or infinite, first that of key ",
                  finite.first_refused(), "; they keep their previous values"));
    if (finite.keys().empty()) return;
  }
  if (settings_.filter.takes_all()) return apply_all(finite.keys(), finite.rows(), tiers);
  const FilteredRows taken(settings_.filter, finite.keys(), finite.rows());
  if (!taken.keys.empty()) apply_all(taken.keys, taken.rows, tiers);
}

void ServedTable::apply_all(std::span<const int64_t> keys, std::span<const float> rows,
                            UpdateTiers tiers) {
  std::lock_guard lock(writer_);
  version_.fetch_add(1, std::memory_order_acq_rel);
  struct Finish {  // also when a tier throws
    std::atomic<uint64_t>& version;
    ~Finish() { version.fetch_add(1, std::memory_order_acq_rel); }
  } finish{version_};
  if (tiers.l3 && l3_ != nullptr && settings_.update_l3) l3_->insert(keys, rows);
  if (tiers.l2 && l2_ != nullptr && settings_.update_l2) {
    const uint64_t evicted = l2_->evicted();
    l2_->insert(keys, rows);
    if (l2_->evicted() != evicted) warn_of_lost_rows();
  }
  if (!tiers.caches) return;
  for (TableCache* cache : caches_) cache->update(keys, rows);
  rows_updated_.fetch_add(keys.size(), std::memory_order_relaxed);
}

// Once: emblem_rows_evicted_total counts on.
void ServedTable::warn_of_lost_rows() {
  if (l3_ != nullptr || std::exchange(warned_of_lost_rows_, true)) return;
  log_warn(cat("table ", settings_.name,
               ": an update exceeded overflow_margin of volatile_db; without a persistent_db the "
               "evicted rows are lost and read as the default row"));
}

std::unique_lock<std::mutex> ServedTable::hold_if_still(uint64_t version) {
  std::unique_lock lock(writer_);
  if (version % 2 != 0 || version != version_.load(std::memory_order_relaxed)) lock.unlock();
  return lock;
}

void ServedTable::add_cache(TableCache* cache) {
  std::lock_guard in_use(caches_in_use_);
  std::lock_guard lock(writer_);
  caches_.push_back(cache);
}

void ServedTable::remove_cache(TableCache* cache) {
  std::lock_guard in_use(caches_in_use_);
  std::lock_guard lock(writer_);
  std::erase(caches_, cache);
}

void ServedTable::refill_l2(const std::function<void(KvTable&)>& fill) {
  std::lock_guard lock(writer_);
  fill(*l2_);
}

void ServedTable::refresh() {
  if (l2_ != nullptr && l3_ != nullptr) refresh_l2();
  refresh_caches();
}

void ServedTable::refresh_caches() {
  std::lock_guard in_use(caches_in_use_);
  for (TableCache* cache : caches_) cache->refresh();
}

void ServedTable::refresh_l2() {
  std::vector<float> fresh;
  std::vector<uint8_t> found;
  l2_->iterate(kRefreshRows, [&](std::span<const int64_t> keys, std::span<const float>) {
    const auto width = static_cast<size_t>(dim());
    fresh.resize(keys.size() * width);
    found.resize(keys.size());
    std::lock_guard lock(writer_);  // no update may come between reading L3 and writing L2
    if (l3_->fetch(keys, fresh, found) == static_cast<int64_t>(keys.size())) {
      return l2_->insert(keys, fresh);
    }
    for (size_t i = 0; i < keys.size(); ++i) {
      if (found[i] != 0)
        l2_->insert(keys.subspan(i, 1), std::span(fresh).subspan(i * width, width));
    }
  });
}

void ServedTable::promote(std::span<const int64_t> keys, std::span<const float> rows,
                          uint64_t version) {
  std::lock_guard lock(writer_);
  if (!promotes_.load(std::memory_order_relaxed)) return;
  if (version % 2 == 0 && version == version_.load(std::memory_order_relaxed)) {
    l2_->insert_missing(keys, rows);
  }
}

}  // namespace emblem
