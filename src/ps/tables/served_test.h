// ps/tables/served_test.h - what tests of served tables share.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "core/files/temp_folder_test.h"
#include "ps/parameter_server.h"
#include "ps/tables/served_lookup.h"

namespace emblem {

// Writes key and emb_vector; row k is {k + add, k + add, ...}.
inline std::string write_ramp(const TempFolder& folder, const std::string& name, int64_t begin,
                              int64_t end, int64_t dim, float add = 0.0f) {
  std::string keys, rows;
  for (int64_t key = begin; key < end; ++key) {
    keys.append(reinterpret_cast<const char*>(&key), sizeof(key));
    const float value = static_cast<float>(key) + add;
    for (int64_t d = 0; d < dim; ++d) {
      rows.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
  }
  folder.write(name + "/key", keys);
  folder.write(name + "/emb_vector", rows);
  return folder.path(name);
}

// The rows of some keys, one after the other.
inline std::vector<float> lookup(ServedTable& table, const std::vector<int64_t>& keys) {
  const std::vector<ServedFeature> features = {{&table}};
  const auto lookup = make_served_lookup(features);
  std::vector<float> out(keys.size() * table.dim(), -99.0f);
  const auto count = static_cast<int64_t>(keys.size());
  const std::vector<FeatureKeys> batch = {{{keys.data(), count}, {}, {}}};
  lookup->forward({}, batch, Phase::kEval, {out.data(), count, table.dim()});
  return out;
}

// A table that can be told to be out of reach.
class FragileTable : public MemoryTable {
 public:
  FragileTable(std::string name, int64_t dim)
      : MemoryTable(std::move(name), dim, {.partitions = 2}, std::make_shared<ReadGate>()) {}

  int64_t fetch(std::span<const int64_t> keys, std::span<float> rows,
                std::span<uint8_t> found) const override {
    check();
    ++fetches;
    keys_asked += static_cast<int64_t>(keys.size());
    return MemoryTable::fetch(keys, rows, found);
  }
  void insert(std::span<const int64_t> keys, std::span<const float> rows) override {
    check();
    MemoryTable::insert(keys, rows);
  }

  std::atomic<bool> down{false};
  mutable std::atomic<int64_t> fetches{0}, keys_asked{0};

 private:
  void check() const {
    if (down) throw Error(ErrorCode::kUnavailable, "the table is down");
  }
};

// The same, but looks like one in another process.
class RemoteTable : public KvTable {
 public:
  RemoteTable(std::string name, int64_t dim) : KvTable(name, dim), table(name, dim) {}
  int64_t fetch(std::span<const int64_t> keys, std::span<float> rows,
                std::span<uint8_t> found) const override {
    return table.fetch(keys, rows, found);
  }
  void insert(std::span<const int64_t> keys, std::span<const float> rows) override {
    table.insert(keys, rows);
  }
  void erase(std::span<const int64_t> keys) override { table.erase(keys); }
  void clear() override { table.clear(); }
  int64_t size() const override { return table.size(); }
  void iterate(int64_t batch_rows, const Take& take) const override {
    table.iterate(batch_rows, take);
  }
  FragileTable table;
};

}  // namespace emblem
