// bench/result/result_table.h - benchmark results as text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/result/result.h"

namespace emblem {

inline constexpr size_t kTerminalColumns = 100;

// Rows of cells as text with aligned columns; the first row has the column names. Columns after the
// first are right-aligned. A row of one cell is a heading over all columns.
std::string align_columns(const std::vector<std::vector<std::string>>& rows);

// The same with the first columns that fit a terminal.
std::string fit_columns(std::vector<std::vector<std::string>> rows);

// Breaks `text` at spaces into lines that fit a terminal. The first line begins with `head`, padded
// to `indent` columns; the other lines are indented by as much.
std::string wrap_text(std::string_view head, std::string_view text, size_t indent);

// Aligned columns that fit a terminal: one row per result with its metrics (of times and latencies
// only p50 and p99) and the largest share of a ceiling. Where a program whose name begins with
// `baseline_program` ("pytorch") has a result of the same benchmark and name, a column shows the
// ratio of each row's first metric to that of the baseline.
std::string results_table(const std::vector<BenchResult>& results,
                          std::string_view baseline_program);

// The first result of the same benchmark and name whose program begins with `program`, or null.
const BenchResult* find_counterpart(const std::vector<BenchResult>& results, const BenchResult& of,
                                    std::string_view program);

// How many times better `value` is than `baseline` (above 1: better); 0 when either is not a
// positive number.
double times_better(const Measure& value, const Measure& baseline);

// "1.83x" for the first metric of `result` relative to `baseline`; empty where there is no ratio.
std::string format_times(const BenchResult& result, const BenchResult* baseline);

// "107 k samples/s", "3.21 GB/s", "12.3 ms", "0.8021": a value with its unit.
std::string format_metric(double value, std::string_view unit);
std::string format_setting(const Setting& setting);

// A name for display: "samples_per_second" -> "samples per second".
std::string display_name(std::string_view name);

}  // namespace emblem
