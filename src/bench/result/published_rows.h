// bench/result/published_rows.h - what others have published, beside a result.
#pragma once

#include <string>
#include <vector>

#include "bench/result/result.h"
#include "bench/result/result_files.h"

namespace emblem {

// The names of published tables (bench/reference) that the results ask for, each once.
std::vector<std::string> references_of(const std::vector<BenchResult>& results);

// One line a published figure: who, on what, and how many times its first metric the best of
// `results` reaches. Empty when no result has that metric.
std::string published_rows(const std::vector<BenchResult>& results, const ReferenceTable& table);

// For tables of the latency of batches, whose settings are "batch N": one line a result of a batch
// of that size and published figure, with how many times as fast the result is. Results of keys
// that are new in every batch (-stream) are left out: what is published repeats one. Empty when no
// result has a latency.
std::string published_latencies(const std::vector<BenchResult>& results,
                                const ReferenceTable& table);

}  // namespace emblem
