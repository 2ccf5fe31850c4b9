// cli/bench_report.h - what benchmarks print when they are done.
#pragma once

#include <string>
#include <vector>

#include "bench/result/result.h"

namespace emblem {

// A table of all results, then the stages and shares of each; written to the file `json` unless
// that is empty.
void report_bench(const std::vector<BenchResult>& results, const std::string& json);

// The last part of it alone.
void write_json(const std::vector<BenchResult>& results, const std::string& json);

// What others have published for the workloads of `results`, with their hardware.
void print_published(const std::vector<BenchResult>& results);

}  // namespace emblem
