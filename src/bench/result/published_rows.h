// bench/result/published_rows.h - published figures next to results.
#pragma once

#include <string>
#include <vector>

#include "bench/result/result.h"
#include "bench/result/result_files.h"

namespace emblem {

// The names of published tables (bench/reference) that the results ask for, each once.
std::vector<std::string> references_of(const std::vector<BenchResult>& results);

// The published figures by workload: the first metric, how many times as good the best of `results`
// is, and by whom, on what hardware. Empty when no result has that metric.
std::string published_rows(const std::vector<BenchResult>& results, const ReferenceTable& table);

// For tables of the latency of batches, whose settings are "batch N": one line for each result
// of a batch of that size and published figure, with how many times as fast the result is. Results
// of keys that are new in every batch (-stream) are skipped: the published ones repeat a batch.
// Empty when no result has a latency.
std::string published_latencies(const std::vector<BenchResult>& results,
                                const ReferenceTable& table);

}  // namespace emblem
