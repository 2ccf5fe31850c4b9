#include "store/memory_store.h"

#include <algorithm>
#include <cstring>

#include "core/memory/prefetch.h"
#include "core/threads/thread_pool.h"

namespace emblem {
namespace {

constexpr size_t kKeysInFlight = 32;  // whose cache misses overlap

}  // namespace

MemoryTable::MemoryTable(std::string name, int64_t dim, const MemorySettings& settings,
                         std::shared_ptr<ReadGate> gate)
    : KvTable(std::move(name), dim), format_{dim, settings.row_type}, gate_(std::move(gate)) {
  for (int64_t i = 0; i < settings.partitions; ++i) {
    parts_.push_back(std::make_unique<MemoryPartition>(*gate_, format_, settings.overflow,
                                                       static_cast<uint64_t>(i)));
  }
}

int64_t MemoryTable::fetch(std::span<const int64_t> keys, std::span<float> rows,
                           std::span<uint8_t> found) const {
  check_sizes(keys, rows.size(), found.size());
  int64_t hits = 0;
  for (size_t begin = 0; begin < keys.size(); begin += kKeysInFlight) {
    const size_t count = std::min(kKeysInFlight, keys.size() - begin);
    uint64_t hashes[kKeysInFlight];
    const std::byte* at[kKeysInFlight];
    const ReadGate::Reader inside = gate_->enter();  // briefly, so that writers never wait long
    for (size_t i = 0; i < count; ++i) prefetch(hashes[i] = hash(keys[begin + i]));
    for (size_t i = 0; i < count; ++i) {
      at[i] = find(hashes[i], keys[begin + i]);
      if (at[i] != nullptr) emblem::prefetch(at[i]);
    }
    for (size_t i = 0; i < count; ++i) {
      found[begin + i] = at[i] != nullptr;
      if (at[i] == nullptr) continue;
      format_.read(at[i], rows.data() + (begin + i) * static_cast<size_t>(dim()));
      ++hits;
    }
  }
  return hits;
}

std::vector<std::vector<uint32_t>> MemoryTable::by_part(std::span<const int64_t> keys) const {
  EMBLEM_REQUIRE(keys.size() < UINT32_MAX, "table ", name(), ": ", keys.size(),
                 " keys in one call; give fewer at a time");
  std::vector<std::vector<uint32_t>> numbers(parts_.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    numbers[part_number(hash(keys[i]))].push_back(static_cast<uint32_t>(i));
  }
  return numbers;
}

void MemoryTable::insert(std::span<const int64_t> keys, std::span<const float> rows) {
  check_sizes(keys, rows.size());
  const auto numbers = by_part(keys);
  for (size_t part = 0; part < parts_.size(); ++part) {
    if (!numbers[part].empty()) parts_[part]->insert(numbers[part], keys.data(), rows.data());
  }
}

void MemoryTable::erase(std::span<const int64_t> keys) {
  const auto numbers = by_part(keys);
  for (size_t part = 0; part < parts_.size(); ++part) {
    if (!numbers[part].empty()) parts_[part]->erase(numbers[part], keys.data());
  }
}

void MemoryTable::clear() {
  for (auto& part : parts_) part->clear();
}

int64_t MemoryTable::size() const {
  int64_t rows = 0;
  for (const auto& part : parts_) rows += part->size();
  return rows;
}

uint64_t MemoryTable::evicted() const {
  uint64_t rows = 0;
  for (const auto& part : parts_) rows += part->evicted();
  return rows;
}

void MemoryTable::iterate(int64_t batch_rows, const Take& take) const {
  const auto dim = static_cast<size_t>(this->dim());
  std::vector<int64_t> keys;
  std::vector<float> rows;
  const auto give = [&] {
    if (!keys.empty()) take(keys, rows);
    keys.clear();
    rows.clear();
  };
  for (const auto& part : parts_) {
    for (const int64_t key : part->keys()) {
      {
        const ReadGate::Reader inside = gate_->enter();
        const std::byte* row = part->find(hash(key), key);
        if (row == nullptr) continue;  // erased meanwhile
        keys.push_back(key);
        rows.resize(rows.size() + dim);
        format_.read(row, rows.data() + rows.size() - dim);
      }
      if (static_cast<int64_t>(keys.size()) == batch_rows) give();
    }
  }
  give();
}

MemoryStore::MemoryStore(MemorySettings settings) : settings_(settings) {
  if (settings_.partitions == 0) settings_.partitions = std::min(16, available_cpus());
  EMBLEM_REQUIRE(settings_.partitions >= 1 && settings_.partitions <= 1 << 16,
                 "memory store: ", settings_.partitions, " partitions; 1 to 65536 are possible");
  const Overflow& overflow = settings_.overflow;
  EMBLEM_REQUIRE(overflow.margin >= 1, "memory store: an overflow margin of 0 keeps no row");
  EMBLEM_REQUIRE(overflow.target >= 0.0 && overflow.target <= 1.0,
                 "memory store: an overflow target of ", overflow.target, " is outside [0, 1]");
}

std::shared_ptr<KvTable> MemoryStore::open(const std::string& name, int64_t dim) {
  std::lock_guard lock(mutex_);
  std::shared_ptr<MemoryTable>& table = tables_[name];
  if (table == nullptr) table = std::make_shared<MemoryTable>(name, dim, settings_, gate_);
  EMBLEM_REQUIRE(table->dim() == dim, "table ", name, " holds rows of dimension ", table->dim(),
                 ", not ", dim);
  return table;
}

void MemoryStore::drop(const std::string& name) {
  std::lock_guard lock(mutex_);
  tables_.erase(name);
}

std::optional<std::string> MemoryStore::note(const std::string& name) const {
  std::lock_guard lock(mutex_);
  const auto found = notes_.find(name);
  return found == notes_.end() ? std::nullopt : std::optional(found->second);
}

void MemoryStore::set_note(const std::string& name, std::string_view text) {
  std::lock_guard lock(mutex_);
  notes_[name] = text;
}

}  // namespace emblem
