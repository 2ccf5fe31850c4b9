#include "ps/tables/table_fetch.h"

#include <sched.h>

#include <chrono>
#include <cstring>

namespace emblem {
namespace {

// Gets from L3 what `fetch` has not found.
void complete_from_l3(const TableFetch& fetch) {
  std::vector<int64_t> keys;
  std::vector<size_t> places;
  for (size_t i = 0; i < fetch.keys.size(); ++i) {
    if (fetch.found[i] != 0) continue;
    keys.push_back(fetch.keys[i]);
    places.push_back(i);
  }
  const auto dim = static_cast<size_t>(fetch.table->dim());
  std::vector<float> rows(keys.size() * dim);
  std::vector<uint8_t> found(keys.size());
  fetch.table->fetch_from_l3(keys, rows, found);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (found[i] == 0) continue;
    fetch.found[places[i]] = 1;
    std::memcpy(fetch.rows.data() + places[i] * dim, rows.data() + i * dim, dim * sizeof(float));
  }
}

void count(const KvFetch& fetch, ServedTable& table, uint64_t nanoseconds) {
  const auto cpu = static_cast<unsigned>(sched_getcpu());
  if (fetch.error) return table.count_l2(cpu, {.errors = 1});
  table.count_l2(cpu, {.hits = static_cast<uint64_t>(fetch.hits),
                       .misses = fetch.keys.size() - static_cast<uint64_t>(fetch.hits),
                       .nanoseconds = nanoseconds});
}

}  // namespace

void fetch_tables(std::span<const TableFetch> fetches) {
  std::vector<KvFetch> l2;
  std::vector<const TableFetch*> owners;
  uint64_t keys = 0;
  for (const TableFetch& fetch : fetches) {
    if (fetch.table->l2() == nullptr || fetch.keys.empty()) continue;
    l2.push_back(
        {.table = fetch.table->l2(), .keys = fetch.keys, .rows = fetch.rows, .found = fetch.found});
    owners.push_back(&fetch);
    keys += fetch.keys.size();
  }
  const auto begin = std::chrono::steady_clock::now();
  fetch_all(l2);
  const auto took = static_cast<uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count());
  for (size_t i = 0; i < l2.size(); ++i)
    count(l2[i], *owners[i]->table, took * l2[i].keys.size() / keys);

  for (size_t i = 0; i < l2.size(); ++i) {
    const TableFetch& fetch = *owners[i];
    if (!l2[i].error) {
      const bool all = l2[i].hits == static_cast<int64_t>(fetch.keys.size());
      if (!all && fetch.table->l3() != nullptr) complete_from_l3(fetch);
      continue;
    }
    if (l2[i].error->code() != ErrorCode::kUnavailable || fetch.table->l3() == nullptr)
      throw *l2[i].error;
    fetch.table->fetch_from_l3(fetch.keys, fetch.rows, fetch.found);
  }
  for (const TableFetch& fetch : fetches) {
    if (fetch.table->l2() == nullptr && !fetch.keys.empty())
      fetch.table->fetch_from_l3(fetch.keys, fetch.rows, fetch.found);
  }
}

}  // namespace emblem
