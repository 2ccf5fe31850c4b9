// cli/bench/bench_report.h - output of benchmarks.
#pragma once

#include <string>
#include <vector>

#include "bench/result/result.h"

namespace emblem {

// Overwrites one line on a terminal.
void show_progress(const std::string& text);

// Prints a table of all results, then the stages and shares of each; also writes the results to the
// file `json` unless that is empty.
void report_bench(const std::vector<BenchResult>& results, const std::string& json);

// Only writes the file.
void write_json(const std::vector<BenchResult>& results, const std::string& json);

// Prints published figures for the workloads of `results`, with their hardware.
void print_published(const std::vector<BenchResult>& results);

}  // namespace emblem
