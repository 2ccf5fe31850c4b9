#include "ps/tables/row_finder.h"

#include <sched.h>

#include <algorithm>
#include <chrono>

#include "core/memory/prefetch.h"
#include "core/threads/thread_pool.h"
#include "ps/tables/table_fetch.h"

namespace emblem {
namespace {

constexpr int64_t kFindKeys = 2048;    // keys whose rows one piece of work finds
constexpr int64_t kKeysInFlight = 32;  // whose cache misses overlap
constexpr int64_t kSmallBatch = 128;   // keys whose rows may all be prefetched at once

void find_piece(const MemoryTable& memory, const int64_t* keys, const std::byte** rows,
                int64_t begin, int64_t end) {
  uint64_t hashes[kKeysInFlight];
  const auto prefetch_slot = [&](int64_t i) {
    memory.prefetch(hashes[i % kKeysInFlight] = MemoryTable::hash(keys[i]));
  };
  const int64_t first = std::min(begin + kKeysInFlight, end);
  for (int64_t i = begin; i < first; ++i) prefetch_slot(i);
  for (int64_t i = begin; i < end; ++i) {
    rows[i] = memory.find(hashes[i % kKeysInFlight], keys[i]);
    if (i + kKeysInFlight < end) prefetch_slot(i + kKeysInFlight);
  }
}

}  // namespace

RowFinder::RowFinder(std::span<ServedTable* const> tables) {
  for (ServedTable* table : tables) {
    EMBLEM_REQUIRE(table != nullptr, "lookup: feature ", features_.size(), " has no table");
    const MemoryTable* in_place = table->in_place();
    features_.push_back(
        {table, in_place,
         in_place == nullptr ? RowFormat{.dim = table->dim()} : in_place->format()});
    const MemoryTable* memory = features_.back().memory;
    if (memory == nullptr) continue;
    if (std::find(gates_.begin(), gates_.end(), &memory->gate()) == gates_.end()) {
      gates_.push_back(&memory->gate());
    }
  }
  readers_.resize(gates_.size());
}

RowFinder::Reading::Reading(RowFinder& finder) : finder_(&finder) {
  for (size_t i = 0; i < finder.gates_.size(); ++i) finder.readers_[i] = finder.gates_[i]->enter();
}

RowFinder::Reading::~Reading() {
  if (finder_ == nullptr) return;
  for (ReadGate::Reader& reader : finder_->readers_) reader.leave();
}

RowFinder::Reading RowFinder::find(const Context& context, Keys keys) {
  EMBLEM_REQUIRE(keys.size() == features_.size(), "lookup: keys of ", keys.size(),
                 " features were given, but there are ", features_.size());
  cpu_ = static_cast<unsigned>(sched_getcpu());
  for (Feature& feature : features_) feature.missing = 0;
  fetch_remote(keys);
  Reading reading(*this);
  find_in_memory(context, keys);
  return reading;
}

// ---- tables whose L2 is not in this process's memory, or that have none ----

void RowFinder::fetch_remote(Keys keys) {
  std::vector<TableFetch> fetches;
  for (size_t f = 0; f < features_.size(); ++f) {
    Feature& feature = features_[f];
    if (feature.memory != nullptr) continue;
    feature.rows.resize(static_cast<size_t>(keys[f].size()));
    std::fill(feature.rows.begin(), feature.rows.end(), nullptr);
    list_missing(feature, keys[f]);
    fetches.push_back({feature.table, feature.unique.keys(), feature.fetched, feature.found});
  }
  if (fetches.empty()) return;
  fetch_tables(fetches);
  for (size_t f = 0; f < features_.size(); ++f) {
    if (features_[f].memory == nullptr) take_fetched(features_[f], keys[f]);
  }
}

// Makes room for the different keys whose rows are null so far.
void RowFinder::list_missing(Feature& feature, View<const int64_t> keys) {
  const auto count = static_cast<size_t>(keys.size());
  feature.unique.clear(count);
  feature.numbers.resize(count);
  for (size_t i = 0; i < count; ++i) {
    if (feature.rows[i] == nullptr) feature.numbers[i] = feature.unique.add(keys.data[i]);
  }
  const size_t unique = feature.unique.keys().size();
  feature.fetched.resize(unique * static_cast<size_t>(feature.table->dim()));
  feature.found.resize(unique);
}

// Returns the fetched rows in the format.
const std::byte* RowFinder::store_fetched(Feature& feature) {
  const RowFormat& format = feature.format;
  if (format.type == DType::kF32) return reinterpret_cast<std::byte*>(feature.fetched.data());
  const size_t unique = feature.unique.keys().size();
  feature.stored.resize(unique * static_cast<size_t>(format.bytes()));
  for (size_t i = 0; i < unique; ++i) {
    if (feature.found[i] != 0)
      format.write(feature.fetched.data() + i * static_cast<size_t>(format.dim),
                   feature.stored.data() + i * static_cast<size_t>(format.bytes()));
  }
  return feature.stored.data();
}

void RowFinder::take_fetched(Feature& feature, View<const int64_t> keys) const {
  const std::byte* fetched = store_fetched(feature);
  const size_t row_bytes = feature.format.type == DType::kF32
                               ? static_cast<size_t>(feature.format.dim) * sizeof(float)
                               : static_cast<size_t>(feature.format.bytes());
  uint64_t missing = 0;
  for (size_t i = 0; i < static_cast<size_t>(keys.size()); ++i) {
    if (feature.rows[i] != nullptr) continue;
    if (feature.found[feature.numbers[i]] != 0) {
      feature.rows[i] = fetched + feature.numbers[i] * row_bytes;
    } else {
      ++missing;
    }
  }
  count_missing(feature, missing);
}

void RowFinder::count_missing(Feature& feature, uint64_t missing) const {
  feature.missing = static_cast<int64_t>(missing);
  feature.table->count_missing(cpu_, missing);
}

// ---- tables in memory ----

void RowFinder::find_in_memory(const Context& context, Keys keys) {
  int64_t total = 0;
  for (size_t f = 0; f < features_.size(); ++f) {
    if (features_[f].memory == nullptr) continue;
    features_[f].rows.resize(static_cast<size_t>(keys[f].size()));
    total += keys[f].size();
  }
  if (total == 0) return;
  const auto begin = std::chrono::steady_clock::now();
  if (total <= kSmallBatch) {
    find_all_at_once(keys);
  } else {
    find_in_pieces(context, keys);
  }
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begin;
  for (size_t f = 0; f < features_.size(); ++f) {
    if (features_[f].memory != nullptr)
      finish_in_memory(features_[f], keys[f], took.count() * keys[f].size() / total);
  }
}

// A small batch waits for memory once for all slots and once for all rows, whatever the number of
// features.
void RowFinder::find_all_at_once(Keys keys) {
  hashes_.clear();
  for (size_t f = 0; f < features_.size(); ++f) {
    if (features_[f].memory == nullptr) continue;
    for (int64_t i = 0; i < keys[f].size(); ++i) {
      hashes_.push_back(MemoryTable::hash(keys[f].data[i]));
      features_[f].memory->prefetch(hashes_.back());
    }
  }
  size_t next = 0;
  for (size_t f = 0; f < features_.size(); ++f) {
    Feature& feature = features_[f];
    if (feature.memory == nullptr) continue;
    const int64_t row_bytes = feature.format.bytes();
    for (int64_t i = 0; i < keys[f].size(); ++i) {
      const std::byte* row = feature.memory->find(hashes_[next++], keys[f].data[i]);
      feature.rows[static_cast<size_t>(i)] = row;
      if (row != nullptr) prefetch(row, row_bytes);
    }
  }
}

void RowFinder::find_in_pieces(const Context& context, Keys keys) {
  pieces_.clear();
  for (size_t f = 0; f < features_.size(); ++f) {
    if (features_[f].memory == nullptr) continue;
    for (int64_t at = 0; at < keys[f].size(); at += kFindKeys) pieces_.push_back({f, at});
  }
  parallel_for(context, static_cast<int64_t>(pieces_.size()), 1, [&](int64_t piece, int64_t) {
    const auto [f, begin] = pieces_[static_cast<size_t>(piece)];
    const int64_t end = std::min(begin + kFindKeys, keys[f].size());
    find_piece(*features_[f].memory, keys[f].data, features_[f].rows.data(), begin, end);
  });
}

// Counts, and gets from L3 what is not in memory.
void RowFinder::finish_in_memory(Feature& feature, View<const int64_t> keys,
                                 int64_t nanoseconds) const {
  const auto misses = std::count(feature.rows.begin(), feature.rows.end(), nullptr);
  feature.table->count_l2(cpu_, {.hits = feature.rows.size() - static_cast<uint64_t>(misses),
                                 .misses = static_cast<uint64_t>(misses),
                                 .nanoseconds = static_cast<uint64_t>(nanoseconds)});
  if (misses == 0) return;
  if (feature.table->l3() == nullptr) return count_missing(feature, static_cast<uint64_t>(misses));
  list_missing(feature, keys);
  feature.table->fetch_from_l3(feature.unique.keys(), feature.fetched, feature.found);
  take_fetched(feature, keys);
}

}  // namespace emblem
