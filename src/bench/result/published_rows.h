// bench/result/published_rows.h - published figures compared with results.
#pragma once

#include <string>
#include <vector>

#include "bench/result/result.h"
#include "bench/result/result_files.h"

namespace emblem {

// The distinct names of published tables (bench/reference) that the results refer to.
std::vector<std::string> references_of(const std::vector<BenchResult>& results);

// The published figures by workload: the first metric, the ratio of the best of `results` to it,
// and the system and hardware it was measured on. Empty when no result has that metric.
std::string published_rows(const std::vector<BenchResult>& results, const ReferenceTable& table);

// For tables of latency by batch size, whose settings are "batch N": one line for each pair of a
// result and a published figure of the same batch size, with the speedup. Results of streams (new
// keys in every batch, "-stream") are skipped: the published ones repeat one batch. Empty when no
// result has a latency.
std::string published_latencies(const std::vector<BenchResult>& results,
                                const ReferenceTable& table);

}  // namespace emblem
