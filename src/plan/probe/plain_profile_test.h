// plan/probe/plain_profile_test.h - a machine and a model whose costs are simple numbers, for
// tests.
#pragma once

#include <string>
#include <vector>

#include "plan/cost/cost.h"

namespace emblem {

// Gathers take 1 us a request, updates 2 us, exchanges 100 us and 1 ns a byte; finding and pooling
// 0.1 us a lookup, sums 0.2 us.
inline MachineProfile test_profile(int ranks) {
  MachineProfile profile{.date = "2026-01-01T00:00:00Z", .model = "dlrm"};
  profile.hosts.assign(static_cast<size_t>(ranks), "a");
  for (int r = 0; r < ranks; ++r) profile.memory.push_back({{r}, int64_t{1} << 30});
  const auto line = [](double fixed, double each) {
    return Curve({{0, fixed}, {1e6, fixed + 1e6 * each}});
  };
  profile.exchange = {line(1e-4, 1e-9), line(1e-4, 1e-9), {}};
  profile.dense_sum = line(2e-4, 1e-9);
  profile.pass = {line(0, 1e-6), line(0, 10e-6), line(0, 1e-6)};
  profile.tables.push_back({.table = {.dim = 16},
                            .gather = KernelCurves({{1 << 20, 1.0, line(0, 1e-6)}}),
                            .update = KernelCurves({{1 << 20, 1.0, line(0, 2e-6)}}),
                            .requests = line(0, 1e-7),
                            .sums = line(0, 2e-7),
                            .bytes_per_row = 64});
  return profile;
}

// A static table of `rows` rows of which a batch of n rows has min(n, rows) different ones.
inline WorkloadTable test_table(const std::string& name, int64_t rows) {
  WorkloadTable table;
  table.settings = {.name = name, .dim = 16, .capacity = rows};
  table.keys = DistinctKeys({{1, 1}, {2, 2}}, 1, static_cast<double>(rows));
  table.expected_keys = static_cast<double>(rows);
  return table;
}

inline Workload test_workload(const std::vector<int64_t>& table_rows) {
  Workload workload{.rows = 1000, .lookups = 1, .dense_values = 1000};
  for (size_t t = 0; t < table_rows.size(); ++t)
    workload.tables.push_back(test_table("t" + std::to_string(t), table_rows[t]));
  return workload;
}

}  // namespace emblem
