// bench/result/history.h - results over time, one JSON line per suite.
//
//   {"date": "2026-11-15T12:00:00Z", "revision": "df7e7f6", "program": "emblem 0.1.0",
//    "environment": "1f0c9a...", "machine": {...}, "results": [{...}, ...]}
// `environment` is a fingerprint of `machine` (CPU, cores, memory, GPU, driver, system, compiler,
// flags): speed is comparable only between lines with the same fingerprint. `results` have the form
// of bench/result/result.h.
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

// 16 hexadecimal digits, a hash of all fields.
std::string fingerprint(const Machine& machine);

// The git revision of the source tree that contains `program`, with the suffix "-dirty" when the
// tree has uncommitted changes; "unknown" outside of a repository. Uses a temporary file in
// `scratch_folder`.
std::string source_revision(const std::string& program, const std::string& scratch_folder);

// Appends one line with a single write(), so that concurrent readers and writers see whole lines.
void append_history(const std::string& path, const std::string& revision,
                    const std::vector<BenchResult>& results);

// All complete lines. Throws Error for a line that is not a history entry.
std::vector<HistoryEntry> read_history(const std::string& path);

}  // namespace emblem
