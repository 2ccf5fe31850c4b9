// bench/result/result.h - the result of a benchmark, a training run or a peer's script.
//
// The JSON form (docs/formats.md) is an object, or an array of objects:
//   {"schema": 1, "benchmark": "train", "name": "dlrm-kaggle-d16-b2048", "program": "emblem 0.1.0",
//    "machine": {"cpu": "...", "cores": 2, "memory": 25165824000, "gpu": "...", "os": "...",
//    "compiler": "..."}, "date": "2025-01-31T12:00:00Z", "settings": {"batch": 2048, "sparse":
//    ["C1", "C2"]}, "metrics": {"samples_per_second": {"value": 1e5, "unit": "samples/s",
//    "higher_is_better": true, "spread": 900, "interval": [9.8e4, 1.02e5], "samples": [9.9e4,
//    1.01e5]}}, "stages": {"load": 1e-3}, "ceilings":
//    {"copy_bytes_per_second": 2e10}, "shares": {"gemm": 0.62}, "series": {"loss": [[1, 0.69], [2,
//    0.65]]}}
// schema, benchmark, name and program are required. Unknown fields are errors, so that a misspelt
// field is not silently ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "bench/result/sample_statistics.h"

namespace emblem {

struct Machine {
  std::string cpu;
  int cores = 0;             // available to the program
  int64_t memory_bytes = 0;  // "memory" in JSON
  std::string gpu;           // empty: none
  std::string os;
  std::string compiler;
  std::string driver;  // version of the GPU's driver; empty: no GPU
  std::string flags;   // flags of the compiler; empty: not known

  bool operator==(const Machine&) const = default;
};

enum class Better { kHigher, kLower };

struct Measure {
  double value = 0;
  std::string unit;
  Better better = Better::kHigher;
  double spread = 0;                 // spread over repetitions, in `unit`; 0: not measured
  std::optional<Interval> interval;  // 95 % confidence interval of `value`
  std::vector<double> samples;       // `value` is their mean; empty: not kept

  bool operator==(const Measure&) const = default;
};

using Setting = std::variant<bool, int64_t, double, std::string, std::vector<std::string>>;
using Series = std::vector<std::pair<double, double>>;  // (step, value), steps ascending

// Named values in order of insertion, which is the order of display.
template <class T>
using Named = std::vector<std::pair<std::string, T>>;

template <class T>
const T* find_named(const Named<T>& items, std::string_view name) {
  for (const auto& [key, value] : items)
    if (key == name) return &value;
  return nullptr;
}

// Reports interpret some settings: "references" (a list of names of published tables,
// bench/reference); "limit_NAME" (a number: the best value that the series or metric NAME can
// reach, drawn as a line); "advice" (text, shown as a recommendation); "axes" (a list: the settings
// that were varied, for heat maps); "verdict", "baseline_NAME", "margin_NAME" and others
// (bench/report/verdicts.h).
struct BenchResult {
  std::string benchmark;  // "train", "loader", "training", ...
  std::string name;       // workload; results of equal benchmark and name are compared
  std::string program;    // "emblem 0.1.0", "pytorch 2.4.1"
  Machine machine;
  std::string date;  // ISO 8601, UTC
  Named<Setting> settings;
  Named<Measure> metrics;
  Named<double> stages;    // seconds per step
  Named<double> ceilings;  // limits of the hardware, measured in the same run
  Named<double> shares;    // shares of a ceiling that were reached, 0 to 1
  Named<Series> series;

  bool operator==(const BenchResult&) const = default;
};

// Lower is better for losses, errors, times and memory; higher for AUC, recall and rates.
Better usual_direction(std::string_view metric);

// This machine and the current time. `compiler` is the one that built this program.
Machine this_machine();
std::string utc_now();
// A result of this program on this machine, dated now.
BenchResult begin_result(std::string benchmark, std::string name);

// `source` names the text in errors, e.g. a path. Throws Error (kInvalidArgument) that names the
// source, the field and what was expected.
std::vector<BenchResult> parse_bench_results(std::string_view json, const std::string& source);
std::string to_json(
    const std::vector<BenchResult>& results);  // a single result is an object, not an array

std::vector<BenchResult> read_bench_results(const std::string& path);
void write_bench_results(const std::string& path, const std::vector<BenchResult>& results);

}  // namespace emblem
