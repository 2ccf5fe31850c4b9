// bench/tables/tables_bench.h - how fast tables look rows up and update them, beside the limit that
// memory sets and the figures that others have published for the same work.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/result/result.h"
#include "bench/result/result_files.h"
#include "core/context.h"
#include "embedding/settings.h"

namespace emblem {

// Keys of a batch come again (the published protocols replay 100 batches), or never: a fresh stream
// keeps bringing keys that the table, or its cache, does not hold.
enum class KeyStream { kReplay, kFresh };

struct TablesCase {
  std::string name;  // of the published figures for the same work, if any
  int64_t tables = 1;
  int64_t rows = 8388608;     // a table
  int64_t original_rows = 0;  // of the published work, where they are more than fit here
  int64_t batch = 65536;      // lookups a table
  int64_t dim = 128;
  int64_t hotness = 1;  // keys a bag
  Pooling pooling = Pooling::kSum;
  double alpha = 1.05;
  std::string optimizer = "sgd";
  DType dtype = DType::kF32;
  TableKind kind = TableKind::kDynamic;
  Placement placement = Placement::kDevice;
  int64_t device_bytes = 0;  // of all tables together, with Placement::kCache
  double load_factor = 1.0;  // of the rows, filled before the clock starts
  KeyStream stream = KeyStream::kReplay;
  bool prefetch = false;  // training steps name the keys of the next
};

struct TablesOptions {
  int64_t batches = 100;  // that are replayed
  int repetitions = 5;
};

const char* name_of(Placement placement);

// "dynamicemb-2025", "dynamicemb-2026": the configurations of the published benchmarks. Tables in
// host memory, on a CPU all, have as many rows as fit in `host_bytes` (0: what is available here).
std::vector<TablesCase> tables_preset(const std::string& name, KeyStream stream, Device device,
                                      int64_t host_bytes = 0);
// One line where a case has fewer rows than the published work, or nothing.
std::string rows_note(const TablesCase& of);

// Throws when the table's results differ from a plain oracle's.
BenchResult bench_tables(const Context& context, const TablesCase& of,
                         const TablesOptions& options);

// All cases, each shown when it is done. A case for which there is too little memory is told in one
// line and the others go on; other errors are thrown.
struct TablesRun {
  std::vector<BenchResult> results;
  std::vector<std::string> not_measured;  // names of cases
};
TablesRun bench_all_tables(const Context& context, const std::vector<TablesCase>& cases,
                           const TablesOptions& options,
                           const std::function<void(const BenchResult&)>& show,
                           const std::function<void(const std::string&)>& tell);

// One line a result; with the published figures of the same name and how many times faster the
// result is.
std::string tables_report(const std::vector<BenchResult>& results,
                          const std::vector<ReferenceTable>& published);

}  // namespace emblem
