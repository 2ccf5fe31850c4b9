// bench/result/result_table.h - benchmark results as text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/result/result.h"

namespace emblem {

// Aligned columns that fit a terminal: one row per result with its metrics, of times and latencies
// p50 and p99 alone, and the share of the ceiling it came closest to. Where a program that begins
// with `baseline_program` ("pytorch") has a result of the same benchmark and name, a column says
// how many times better each row's first metric is than that one's.
std::string results_table(const std::vector<BenchResult>& results,
                          std::string_view baseline_program);

// The first result of the same benchmark and name whose program begins with `program`, or null.
const BenchResult* find_counterpart(const std::vector<BenchResult>& results, const BenchResult& of,
                                    std::string_view program);

// How many times better `value` is than `baseline` (above 1: better); 0 when either is not a
// positive number.
double times_better(const Measure& value, const Measure& baseline);

// "1.83x" for the first metric of `result` against the same of `baseline`; empty where it cannot be
// said.
std::string format_times(const BenchResult& result, const BenchResult* baseline);

// "107 k samples/s", "3.21 GB/s", "12.3 ms", "0.8021": a value with its unit.
std::string format_metric(double value, std::string_view unit);
std::string format_setting(const Setting& setting);

// A name as a heading: "samples_per_second" -> "samples per second".
std::string spoken(std::string_view name);

}  // namespace emblem
