// bench/tables/tables_bench.h - the speed of table lookups and updates, compared with the memory
// bandwidth and with published figures for the same workloads.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/result/result.h"
#include "bench/result/result_files.h"
#include "core/device/context.h"
#include "embedding/settings.h"

namespace emblem {

// kReplay repeats batches (the published protocols replay 100). kFresh never does: a stream keeps
// bringing keys that the table, or its cache, does not hold.
enum class KeyStream { kReplay, kFresh };

struct TablesCase {
  std::string name;  // name of the published figures for the same workload, if any
  int64_t tables = 1;
  int64_t rows = 8388608;     // per table
  int64_t original_rows = 0;  // rows of the published workload, if they do not fit
  int64_t batch = 65536;      // lookups per table
  int64_t dim = 128;
  int64_t hotness = 1;  // keys per bag
  Pooling pooling = Pooling::kSum;
  double alpha = 1.05;
  std::string optimizer = "sgd";
  DType dtype = DType::kF32;
  TableKind kind = TableKind::kDynamic;
  Placement placement = Placement::kDevice;
  int64_t device_bytes = 0;  // total of all tables, with Placement::kCache
  double load_factor = 1.0;  // share of the rows filled before timing starts
  KeyStream stream = KeyStream::kReplay;
  bool prefetch = false;  // training steps prefetch the keys of the next step
};

struct TablesOptions {
  int64_t batches = 100;  // to replay
  int repetitions = 5;
};

const char* name_of(Placement placement);

// "dynamicemb-2025", "dynamicemb-2026": the configurations of the published benchmarks. Tables in
// host memory (on a CPU: all) have as many rows as fit in `host_bytes` (0: the available memory).
std::vector<TablesCase> tables_preset(const std::string& name, KeyStream stream, Device device,
                                      int64_t host_bytes = 0);
// One line if a case has fewer rows than the published workload, or "".
std::string rows_note(const TablesCase& of);

// Throws if the results of the tables differ from those of a reference implementation.
BenchResult bench_tables(const Context& context, const TablesCase& of,
                         const TablesOptions& options);

// Runs all cases; `show` is called with each result. A case that does not fit into memory is
// reported to `notify` in one line and skipped; other errors are thrown.
struct TablesRun {
  std::vector<BenchResult> results;
  std::vector<std::string> not_measured;  // names of cases
};
TablesRun bench_all_tables(const Context& context, const std::vector<TablesCase>& cases,
                           const TablesOptions& options,
                           const std::function<void(const BenchResult&)>& show,
                           const std::function<void(const std::string&)>& notify);

// One line per result, with the published figures of the same name and the speedup.
std::string tables_report(const std::vector<BenchResult>& results,
                          const std::vector<ReferenceTable>& published);

}  // namespace emblem
