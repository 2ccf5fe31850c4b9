#include "embedding/cache/row_cache.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

#include "core/memory/pinned.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Sets for `rows` rows in addition to their spare slots.
uint32_t sets_of(int64_t rows) {
  constexpr int64_t kUsed = kWays - kSpareWays;
  return static_cast<uint32_t>(std::max<int64_t>(1, (rows + kUsed - 1) / kUsed));
}

}  // namespace

std::vector<int64_t> cache_rows(std::span<const int64_t> table_rows, const CacheSize& size,
                                int64_t row_bytes) {
  EMBLEM_REQUIRE(size.share > 0.0 && size.share <= 1.0, "a cache of ", size.share,
                 " of the rows; the share must be above 0 and at most 1");
  const auto gets_least = [&](int64_t of) {
    return size.share * static_cast<double>(of) <= static_cast<double>(size.least_rows);
  };
  // What remains for the other tables after small ones got their minimum.
  double left = 0.0, others = 0.0;
  std::vector<int64_t> rows;
  for (const int64_t of : table_rows) {
    left += size.share * static_cast<double>(of);
    if (gets_least(of)) {
      rows.push_back(std::max<int64_t>(1, of <= size.least_rows ? 2 * of : size.least_rows));
      left -= static_cast<double>(rows.back());
    } else {
      rows.push_back(0);
      others += static_cast<double>(of);
    }
  }
  int64_t all = 0;
  for (size_t t = 0; t < rows.size(); ++t) {
    const auto of = static_cast<double>(table_rows[t]);
    if (!gets_least(table_rows[t]))
      rows[t] = std::max<int64_t>({1, size.least_rows, std::llround(of / others * left)});
    all += rows[t];
  }
  if (size.bytes == 0 || all * row_bytes <= size.bytes) return rows;
  const double scale = static_cast<double>(size.bytes) / static_cast<double>(all * row_bytes);
  for (int64_t& of : rows)
    of = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(of) * scale));
  return rows;
}

// A read that ends with the scope.
class RowCache::ReadScope {
 public:
  explicit ReadScope(RowCache& cache) : cache_(cache), number_(cache.begin_read()) {}
  ~ReadScope() { cache_.end_read(number_); }
  ReadScope(const ReadScope&) = delete;

 private:
  RowCache& cache_;
  uint64_t number_;
};

RowCache::RowCache(const Context& context, RowCacheSettings settings)
    : settings_(std::move(settings)), context_(context) {
  EMBLEM_REQUIRE(settings_.row_bytes > 0 && settings_.row_bytes % 16 == 0, "a cache of rows of ",
                 settings_.row_bytes, " bytes; a multiple of 16 is needed");
  EMBLEM_REQUIRE(!settings_.table_rows.empty(), "a cache of the rows of no table");
  int64_t sets = 0;
  for (const int64_t rows : settings_.table_rows) {
    EMBLEM_REQUIRE(rows > 0, "a cache of ", rows, " rows of a table; at least 1 is needed");
    sets_.push_back({static_cast<uint32_t>(sets), sets_of(rows)});
    sets += sets_.back().count;
  }
  slots_ = sets * kWays;
  EMBLEM_REQUIRE(slots_ < int64_t{kNoSlot32}, "a cache of ", slots_,
                 " rows is larger than the 4294967294 that one may have");
  tags_ = Buffer<uint8_t>::zeros(context, slots_);
  entries_ = Buffer<RowCacheEntry>::zeros(context, slots_);
  counts_ = Buffer<uint32_t>::zeros(context, slots_);
  retired_ = Buffer<uint64_t>::zeros(context, slots_);
  locks_ = Buffer<uint32_t>::zeros(context, sets);
  rows_ = Buffer<char>(context.device, slots_, settings_.row_bytes);
  tables_ = Buffer<CacheSets>::from(context, sets_);
  tick_ = Buffer<unsigned long long>::from(context, {1ull});
  dispatch(
      context.device,
      [&] {
        plain_ = std::make_unique<ReadEpochs>();
        epochs_ = plain_.get();
      },
      [&] {
        pinned_ = std::make_shared<cuda::PinnedMemory>(sizeof(ReadEpochs));
        epochs_ = new (pinned_->data()) ReadEpochs();
      });
  ref_ = {tags_.data(),  entries_.data(),     counts_.data(),  retired_.data(),
          locks_.data(), rows_.data(),        tables_.data(),  tick_.data(),
          epochs_,       settings_.row_bytes, settings_.policy};
  context.synchronize();
}

RowCache::~RowCache() = default;

int64_t RowCache::bytes() const {
  return slots_ * (settings_.row_bytes + 1 + static_cast<int64_t>(sizeof(RowCacheEntry)) + 4 + 8);
}

uint64_t RowCache::begin_read() {
  std::lock_guard lock(mutex_);
  active_.insert(++issued_);
  epochs_->issued = issued_;
  return issued_;
}

void RowCache::end_read(uint64_t number) {
  std::lock_guard lock(mutex_);
  active_.erase(number);
  const uint64_t oldest = active_.empty() ? issued_ + 1 : *active_.begin();
  for (int step = 0; step < 2 && oldest > overlapping_; ++step) {
    epochs_->free_before = ended_;
    ended_ = oldest;
    overlapping_ = issued_;
  }
}

ReadEpochs RowCache::epochs() const {
  std::lock_guard lock(mutex_);
  return {epochs_->issued, epochs_->free_before};
}

void RowCache::insert(int table, std::span<const int64_t> keys, std::span<const char> rows,
                      Existing existing) {
  EMBLEM_REQUIRE(
      static_cast<int64_t>(rows.size()) == static_cast<int64_t>(keys.size()) * settings_.row_bytes,
      "cache: ", keys.size(), " keys with ", rows.size(), " bytes of rows");
  const ReadScope scope(*this);
  std::lock_guard lock(transfer_mutex_);
  dispatch(
      context_.device,
      [&] { cpu::insert_cached(ref_, epochs(), table, keys, rows.data(), existing); },
      [&] {
        const auto device_keys = Buffer<int64_t>::from(context_, {keys.begin(), keys.end()});
        const auto device_rows = Buffer<char>::from(context_, {rows.begin(), rows.end()});
        cuda::insert_cached(context_, ref_, epochs(), table, device_keys.view(), device_rows.data(),
                            existing);
        context_.synchronize();
      });
}

int64_t RowCache::read(int table, std::span<const int64_t> keys, std::span<uint8_t> found,
                       std::span<char> rows) {
  std::vector<uint32_t> slots(keys.size());
  const auto bytes = static_cast<size_t>(settings_.row_bytes);
  const ReadScope scope(*this);
  std::lock_guard lock(transfer_mutex_);
  dispatch(
      context_.device,
      [&] {
        cpu::find_cached(ref_, table, keys, slots);
        for (size_t i = 0; i < keys.size(); ++i) {
          if (slots[i] != kNoSlot32)
            std::memcpy(rows.data() + i * bytes, ref_.row(slots[i]), bytes);
        }
      },
      [&] {
        const auto count = static_cast<int64_t>(keys.size());
        const auto device_keys = Buffer<int64_t>::from(context_, {keys.begin(), keys.end()});
        Buffer<uint32_t> device_slots(Device::kCuda, count);
        Buffer<char> device_rows(Device::kCuda, count, settings_.row_bytes);
        cuda::find_cached(context_, ref_, table, device_keys.view(), device_slots.data());
        cuda::copy_cached(context_, ref_, device_slots.data(), count, device_rows.data());
        detail::copy(context_, rows.data(), device_rows.data(), keys.size() * bytes);
        slots = device_slots.to_host(context_);
      });
  int64_t hits = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    found[i] = slots[i] != kNoSlot32 ? 1 : 0;
    hits += found[i];
  }
  return hits;
}

std::vector<int64_t> RowCache::keys(int table) const {
  std::lock_guard lock(transfer_mutex_);
  const CacheSets sets = sets_[static_cast<size_t>(table)];
  const int64_t first = int64_t{sets.first} * kWays, count = int64_t{sets.count} * kWays;
  std::vector<uint8_t> tags(static_cast<size_t>(count));
  std::vector<RowCacheEntry> entries(static_cast<size_t>(count));
  detail::copy(context_, tags.data(), tags_.data() + first, tags.size());
  detail::copy(context_, entries.data(), entries_.data() + first,
               entries.size() * sizeof(RowCacheEntry));
  context_.synchronize();
  std::vector<int64_t> keys;
  for (size_t slot = 0; slot < tags.size(); ++slot) {
    if (tags[slot] != 0) keys.push_back(entries[slot].key);
  }
  return keys;
}

}  // namespace emblem
