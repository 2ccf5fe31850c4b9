#include "ps/tables/device_tier.h"

#include <sched.h>

#include <algorithm>

#include "core/memory/heap_account.h"
#include "core/memory/pinned.h"
#include "core/system/caught_error.h"
#include "core/threads/start_thread.h"
#include "embedding/cache/static_rows.h"
#include "embedding/rows_ref.h"
#include "ps/tables/table_fetch.h"

namespace emblem::cuda {
namespace {

constexpr uint64_t kNotAsked = UINT64_MAX;       // in the place of a version
constexpr size_t kAtOnce = 8192;                 // rows that are fetched at a time
constexpr int64_t kMostBytesAtOnce = 64 << 20;   // bytes of rows that are refreshed at a time
constexpr size_t kMostWanted = size_t{1} << 20;  // keys to fetch after batches; others are dropped
constexpr size_t kMostKept = size_t{16} << 20;   // bytes of pinned memory kept between batches

// Some keys of a table, at most `most`.
std::vector<int64_t> some_keys(const ServedTable& table, size_t most) {
  struct Enough {};
  std::vector<int64_t> keys;
  const KvTable& all = table.l3() != nullptr ? *table.l3() : *table.l2();
  try {
    all.iterate(kAtOnce, [&](std::span<const int64_t> part, std::span<const float>) {
      const size_t count = std::min(part.size(), most - keys.size());
      keys.insert(keys.end(), part.begin(), part.begin() + static_cast<int64_t>(count));
      if (keys.size() == most) throw Enough();
    });
  } catch (const Enough&) {  // a large table is not read to its end
  }
  return keys;
}

}  // namespace

// Updates of a table, on their way into the cache.
class DeviceTier::Updates final : public TableCache {
 public:
  Updates(DeviceTier& tier, int table) : tier_(tier), table_(table) {}
  void update(std::span<const int64_t> keys, std::span<const float> rows) override {
    const int64_t dim = tier_.settings_.tables[static_cast<size_t>(table_)]->dim();
    const int64_t row_bytes = tier_.cache_->settings().row_bytes;
    std::vector<char> narrow(keys.size() * static_cast<size_t>(row_bytes));
    for (size_t i = 0; i < keys.size(); ++i)
      tier_.narrow(rows.subspan(i * static_cast<size_t>(dim), static_cast<size_t>(dim)), dim,
                   narrow.data() + static_cast<int64_t>(i) * row_bytes);
    // The last of equal keys counts; the cache wants different ones.
    std::vector<int64_t> different(keys.begin(), keys.end());
    std::sort(different.begin(), different.end());
    if (std::adjacent_find(different.begin(), different.end()) == different.end())
      return tier_.cache_->insert(table_, keys, narrow, RowCache::Existing::kUpdate);
    for (size_t i = 0; i < keys.size(); ++i)
      tier_.cache_->insert(table_, keys.subspan(i, 1),
                           std::span(narrow).subspan(i * static_cast<size_t>(row_bytes),
                                                     static_cast<size_t>(row_bytes)),
                           RowCache::Existing::kUpdate);
  }
  void refresh() override { tier_.refresh(table_); }

 private:
  DeviceTier& tier_;
  int table_;
};

// Fetches what a batch missed through memory that is pinned once.
class DeviceTier::Missing final : public MissingRowSource {
 public:
  explicit Missing(DeviceTier& tier) : tier_(tier) {}

  void count_lookups(const CachedRows& cached, int64_t rows) override {
    lookups_.assign(tier_.settings_.tables.size(), 0);
    for (int64_t f = 0; f < cached.features(); ++f)
      lookups_[static_cast<size_t>(cached.table_of(f))] += static_cast<uint64_t>(rows);
    count(cached);
  }
  void count_lookups(const CachedRows& cached, std::span<const uint64_t> of_tables) override {
    lookups_.assign(of_tables.begin(), of_tables.end());
    count(cached);
  }

  bool fetch(const Context& context, CachedRows& rows) override {
    const auto keys = rows.missing_keys();
    const auto tables = rows.missing_tables();
    const bool waits = choose_later(rows.missed_of_tables());
    if (tier_.settings_.hit_rate_threshold <= 1.0) tier_.fetch_later(keys, tables, later_);
    if (!waits) return false;
    make_room(keys.size());
    const std::vector<uint64_t> versions = fetch(keys, tables);
    const auto row_bytes = static_cast<size_t>(tier_.cache_->settings().row_bytes);
    copy_async(context, rows.staged_row(0), host_->data(), keys.size() * row_bytes);
    copy_async(context, device_flags_.data(), flags(), keys.size());
    insert(context, rows, keys.size(), versions);
    if (host_->bytes() > kMostKept) drop_room();
    return true;
  }

 private:
  void count(const CachedRows& cached) {
    const bool all_hit = cached.report().lookups == 0;
    const auto cpu = static_cast<unsigned>(sched_getcpu());
    for (size_t t = 0; t < lookups_.size(); ++t) {
      const uint64_t misses = all_hit ? 0 : cached.missed_of_tables()[t];
      tier_.settings_.tables[t]->count_l1(cpu, {.hits = lookups_[t] - misses, .misses = misses});
    }
  }

  // Sets which tables have enough hits for their misses to be fetched later. Returns whether the
  // batch waits for any.
  bool choose_later(std::span<const uint32_t> missed) {
    bool waits = false;
    later_.resize(missed.size());
    for (size_t t = 0; t < missed.size(); ++t) {
      const double hit_rate = 1.0 - static_cast<double>(missed[t]) /
                                        static_cast<double>(std::max<uint64_t>(1, lookups_[t]));
      later_[t] = hit_rate >= tier_.settings_.hit_rate_threshold;
      waits |= missed[t] != 0 && later_[t] == 0;
    }
    return waits;
  }

  char* flags() const {
    return host_->data() + room_ * static_cast<size_t>(tier_.cache_->settings().row_bytes);
  }
  void make_room(size_t rows) {
    if (rows <= room_) return;
    const size_t room = rows + rows / 2;
    const auto row_bytes = static_cast<size_t>(tier_.cache_->settings().row_bytes);
    auto taken = std::make_unique<HeapAccount::Taken>(room * (row_bytes + 1));
    auto host = std::make_unique<PinnedMemory>(room * (row_bytes + 1));
    device_flags_ = Buffer<uint8_t>(Device::kCuda, static_cast<int64_t>(room));
    host_ = std::move(host);
    taken_ = std::move(taken);
    room_ = room;
  }

  // What is in it has been copied.
  void drop_room() {
    room_ = 0;
    host_.reset();
    taken_.reset();
    device_flags_ = {};
    parts_.clear();
  }

  // The rows, or what keys without one read as, in host_; flags say which are there.
  std::vector<uint64_t> fetch(std::span<const int64_t> keys, std::span<const int32_t> tables) {
    std::vector<uint64_t> versions(tier_.settings_.tables.size(), kNotAsked);
    parts_.resize(versions.size());
    for (Part& part : parts_) {
      part.places.clear();
      part.keys.clear();
    }
    for (size_t i = 0; i < keys.size(); ++i) {
      Part& part = parts_[static_cast<size_t>(tables[i])];
      part.places.push_back(i);
      part.keys.push_back(keys[i]);
    }
    std::vector<TableFetch> fetches;
    for (size_t t = 0; t < parts_.size(); ++t) {
      Part& part = parts_[t];
      ServedTable& table = *tier_.settings_.tables[t];
      part.rows.resize(part.keys.size() * static_cast<size_t>(table.dim()));
      part.found.assign(part.keys.size(), 0);
      if (part.keys.empty() || later_[t] != 0) continue;
      versions[t] = table.version();
      fetches.push_back({&table, part.keys, part.rows, part.found});
    }
    fetch_tables(fetches);
    const auto cpu = static_cast<unsigned>(sched_getcpu());
    for (size_t t = 0; t < parts_.size(); ++t) {
      const uint64_t absent = place(parts_[t], *tier_.settings_.tables[t]);
      if (later_[t] == 0) tier_.settings_.tables[t]->count_missing(cpu, absent);
    }
    return versions;
  }

  // A table's share of what a batch missed.
  struct Part {
    std::vector<size_t> places;  // among all that were missed
    std::vector<int64_t> keys;
    std::vector<float> rows;
    std::vector<uint8_t> found;
  };

  // Puts rows to their places in host_, and default rows in the place of those that were not
  // found, which it counts.
  uint64_t place(Part& part, ServedTable& table) {
    const auto dim = static_cast<size_t>(table.dim());
    const int64_t row_bytes = tier_.cache_->settings().row_bytes;
    uint64_t absent = 0;
    for (size_t i = 0; i < part.keys.size(); ++i) {
      const std::span row(part.rows.data() + i * dim, dim);
      if (part.found[i] == 0) {
        ++absent;
        for (size_t d = 0; d < dim; ++d)
          row[d] = table.settings().missing(
              table.settings().seed, static_cast<uint64_t>(part.keys[i]), static_cast<int64_t>(d));
      }
      tier_.narrow(row, table.dim(),
                   host_->data() + static_cast<int64_t>(part.places[i]) * row_bytes);
      flags()[part.places[i]] = static_cast<char>(part.found[i]);
    }
    return absent;
  }

  // Unless an update came since they were read: then the batch has them, and the cache does not.
  void insert(const Context& context, CachedRows& rows, size_t count,
              const std::vector<uint64_t>& versions) {
    std::vector<std::unique_lock<std::mutex>> locks;
    bool still = true;
    for (size_t t = 0; t < versions.size() && still; ++t) {
      if (versions[t] == kNotAsked) continue;
      locks.push_back(tier_.settings_.tables[t]->hold_if_still(versions[t]));
      still = locks.back().owns_lock();
    }
    if (still) rows.insert_staged(context, device_flags_.data(), static_cast<int64_t>(count));
    context.synchronize();
  }

  DeviceTier& tier_;
  size_t room_ = 0;
  std::unique_ptr<HeapAccount::Taken> taken_;  // of the budget of requests, for host_
  std::unique_ptr<PinnedMemory> host_;         // rows, then flags
  Buffer<uint8_t> device_flags_;
  std::vector<uint64_t> lookups_;  // lookups of each table
  std::vector<uint8_t> later_;     // whether the misses of a table are fetched after the batch
  std::vector<Part> parts_;        // parts of each table
};

DeviceTier::DeviceTier(DeviceTierSettings settings) : settings_(std::move(settings)) {
  context_.device = Device::kCuda;
  context_.stream = stream_.get();
  int64_t row_bytes = 0;
  std::vector<int64_t> counts;
  for (const auto& table : settings_.tables) {
    row_bytes = std::max(row_bytes, row_bytes_of(table->dim(), settings_.dtype));
    const KvTable* all = table->l3() != nullptr ? table->l3() : table->l2();
    counts.push_back(std::max<int64_t>(1, all->size()));
  }
  cache_ = std::make_unique<RowCache>(
      context_, RowCacheSettings{.row_bytes = row_bytes,
                                 .table_rows = cache_rows(counts, settings_.size, row_bytes),
                                 .policy = settings_.policy});
  for (size_t t = 0; t < settings_.tables.size(); ++t)
    updates_.push_back(std::make_unique<Updates>(*this, static_cast<int>(t)));
  thread_ = start_thread("the cache of a GPU", [this] { work(); });
  try {
    for (size_t t = 0; t < settings_.tables.size(); ++t)
      settings_.tables[t]->add_cache(updates_[t].get());
  } catch (...) {
    stop();
    throw;
  }
}

DeviceTier::~DeviceTier() { stop(); }

void DeviceTier::stop() {
  for (size_t t = 0; t < settings_.tables.size(); ++t)
    settings_.tables[t]->remove_cache(updates_[t].get());
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::unique_ptr<CachedRows> DeviceTier::make_rows(const Context& context, std::vector<int> features,
                                                  int64_t max_rows) {
  CachedRowsSettings settings{.cache = cache_.get(), .dtype = settings_.dtype};
  settings.features = std::move(features);
  settings.max_rows = max_rows;
  for (const auto& table : settings_.tables) {
    settings.tables.push_back({.dim = table->dim(),
                               .missing = table->settings().missing,
                               .seed = table->settings().seed});
  }
  return std::make_unique<CachedRows>(context, std::move(settings));
}

std::unique_ptr<MissingRowSource> DeviceTier::make_missing() {
  return std::make_unique<Missing>(*this);
}

void DeviceTier::narrow(std::span<const float> from, int64_t dim, char* to) const {
  with_weight_type(settings_.dtype, [&](auto type) {
    auto* weights = reinterpret_cast<decltype(type)*>(to);
    for (int64_t d = 0; d < dim; ++d) store_weight(weights + d, from[static_cast<size_t>(d)]);
  });
}

void DeviceTier::fetch_and_insert(int number, std::span<const int64_t> keys,
                                  RowCache::Existing existing) {
  ServedTable& table = *settings_.tables[static_cast<size_t>(number)];
  const auto dim = static_cast<size_t>(table.dim());
  const auto row_bytes = static_cast<size_t>(cache_->settings().row_bytes);
  std::vector<float> rows(keys.size() * dim);
  std::vector<uint8_t> found(keys.size());
  const uint64_t version = table.version();
  const TableFetch fetch{&table, keys, rows, found};
  fetch_tables({&fetch, 1});
  std::vector<int64_t> there;
  std::vector<char> narrow_rows;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (found[i] == 0) continue;
    there.push_back(keys[i]);
    narrow_rows.resize(there.size() * row_bytes);
    narrow(std::span(rows).subspan(i * dim, dim), table.dim(),
           narrow_rows.data() + (there.size() - 1) * row_bytes);
  }
  const auto lock = table.hold_if_still(version);
  if (lock.owns_lock()) cache_->insert(number, there, narrow_rows, existing);
}

void DeviceTier::fetch_and_insert(int table, std::span<const int64_t> keys,
                                  RowCache::Existing existing, size_t at_once) {
  for (size_t at = 0; at < keys.size(); at += at_once)
    fetch_and_insert(table, keys.subspan(at, std::min(at_once, keys.size() - at)), existing);
}

void DeviceTier::fill() {
  for (size_t t = 0; t < settings_.tables.size(); ++t) {
    const auto room = static_cast<size_t>(cache_->settings().table_rows[t]);
    fetch_and_insert(static_cast<int>(t), some_keys(*settings_.tables[t], room),
                     RowCache::Existing::kKeep, kAtOnce);
  }
}

void DeviceTier::refresh(int table) {
  size_t at_once = kAtOnce;
  if (settings_.refresh_share > 0) {
    const RowCacheSettings& cache = cache_->settings();
    const auto share =
        static_cast<int64_t>(settings_.refresh_share *
                             static_cast<double>(cache.table_rows[static_cast<size_t>(table)]));
    at_once =
        static_cast<size_t>(std::clamp<int64_t>(share, 1, kMostBytesAtOnce / cache.row_bytes));
  }
  fetch_and_insert(table, cache_->keys(table), RowCache::Existing::kUpdate, at_once);
}

void DeviceTier::fetch_later(std::span<const int64_t> keys, std::span<const int32_t> tables,
                             std::span<const uint8_t> later) {
  std::lock_guard lock(mutex_);
  if (wanted_keys_ + keys.size() > kMostWanted) return;  // they will be missed again
  for (size_t t = 0; t < settings_.tables.size(); ++t) {
    if (later[t] == 0) continue;
    Wanted wanted{static_cast<int>(t), {}};
    for (size_t i = 0; i < keys.size(); ++i) {
      if (tables[i] == static_cast<int32_t>(t)) wanted.keys.push_back(keys[i]);
    }
    if (wanted.keys.empty()) continue;
    const size_t count = wanted.keys.size();
    wanted_.push_back(std::move(wanted));
    wanted_keys_ += count;
  }
  changed_.notify_all();
}

void DeviceTier::wait_until_fetched() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return wanted_keys_ == 0; });
}

void DeviceTier::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !wanted_.empty(); });
    if (stop_) return;
    const Wanted wanted = std::move(wanted_.front());
    wanted_.pop_front();
    lock.unlock();
    try {
      fetch_and_insert(wanted.table, wanted.keys, RowCache::Existing::kKeep, kAtOnce);
    } catch (...) {  // a tier is down: the rows will be missed again
      debug_caught("rows cannot be fetched into the cache of the GPU");
    }
    lock.lock();
    wanted_keys_ -= wanted.keys.size();
    changed_.notify_all();
  }
}

}  // namespace emblem::cuda
