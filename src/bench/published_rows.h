// bench/published_rows.h - what others have published, beside a result.
#pragma once

#include <string>
#include <vector>

#include "bench/report_input.h"
#include "bench/result.h"

namespace emblem {

// The names of published tables (bench/reference) that the results ask for, each once.
std::vector<std::string> references_of(const std::vector<BenchResult>& results);

// One line a published figure: who, on what, and how many times its first metric the best of
// `results` reaches. Empty when no result has that metric.
std::string published_rows(const std::vector<BenchResult>& results, const ReferenceTable& table);

}  // namespace emblem
