#include "ps/tables/table_fetch.h"

#include <sched.h>

#include <chrono>
#include <cstring>

namespace emblem {
namespace {

// Asks again for some of the keys, by their numbers.
template <class Fetch>
void complete(const TableFetch& fetch, std::span<const uint32_t> numbers, Fetch&& from) {
  if (numbers.empty()) return;
  std::vector<int64_t> keys;
  for (const uint32_t i : numbers) keys.push_back(fetch.keys[i]);
  const auto dim = static_cast<size_t>(fetch.table->dim());
  std::vector<float> rows(keys.size() * dim);
  std::vector<uint8_t> found(keys.size());
  from(keys, rows, found);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (found[i] == 0) continue;
    fetch.found[numbers[i]] = 1;
    std::memcpy(fetch.rows.data() + numbers[i] * dim, rows.data() + i * dim, dim * sizeof(float));
  }
}

void complete_from_l3(const TableFetch& fetch) {
  std::vector<uint32_t> missing;
  for (size_t i = 0; i < fetch.keys.size(); ++i)
    if (fetch.found[i] == 0) missing.push_back(static_cast<uint32_t>(i));
  complete(fetch, missing, [&](auto&... of) { fetch.table->fetch_from_l3(of...); });
}

// What L2 did not give: all rows where it failed, else those that it does not have or has lost.
void complete(const TableFetch& fetch, const KvFetch& l2) {
  if (l2.error) {
    const bool has_others = fetch.table->l3() != nullptr || fetch.table->fallback() != nullptr;
    if (!has_others) throw *l2.error;
    return fetch.table->fetch_lost(fetch.keys, fetch.rows, fetch.found);
  }
  const bool all = l2.hits == static_cast<int64_t>(fetch.keys.size());
  if (all) return;
  if (fetch.table->l3() != nullptr) return complete_from_l3(fetch);
  complete(fetch, l2.unknown, [&](auto&... of) { fetch.table->fetch_lost(of...); });
}

void count(const KvFetch& fetch, ServedTable& table, uint64_t nanoseconds) {
  const auto cpu = static_cast<unsigned>(sched_getcpu());
  if (fetch.error) return table.count_l2(cpu, {.errors = 1});
  if (!fetch.unknown.empty()) table.count_l2(cpu, {.errors = 1});
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

  for (size_t i = 0; i < l2.size(); ++i) complete(*owners[i], l2[i]);
  for (const TableFetch& fetch : fetches) {
    if (fetch.table->l2() == nullptr && !fetch.keys.empty())
      fetch.table->fetch_from_l3(fetch.keys, fetch.rows, fetch.found);
  }
}

}  // namespace emblem
