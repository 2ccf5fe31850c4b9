// bench/result/history.h - results over time: one JSON line a suite.
//
//   {"date": "2026-11-15T12:00:00Z", "revision": "df7e7f6", "program": "emblem 0.1.0",
//    "environment": "1f0c9a...", "machine": {...}, "results": [{...}, ...]}
// `environment` is a fingerprint of `machine` (CPU, cores, memory, GPU, driver, system, compiler,
// flags): only lines of equal fingerprints compare in speed. `results` are as in
// bench/result/result.h.
#pragma once

#include <string>
#include <vector>

#include "bench/result/result.h"

namespace emblem {

struct HistoryEntry {
  std::string date, revision, program;
  std::string environment;
  std::vector<BenchResult> results;
};

// 16 hexadecimal digits that are equal for equal machines.
std::string fingerprint(const Machine& machine);

// The revision of the sources that `program` was built in, "-dirty" behind it where they were
// changed since; "unknown" where git does not tell. Needs a folder for a file that it removes.
std::string source_revision(const std::string& program, const std::string& scratch_folder);

// Adds a line, made in one write: readers and other suites never see half of one.
void append_history(const std::string& path, const std::string& revision,
                    const std::vector<BenchResult>& results);

// All complete lines. Throws Error for a line that append_history did not write.
std::vector<HistoryEntry> read_history(const std::string& path);

}  // namespace emblem
