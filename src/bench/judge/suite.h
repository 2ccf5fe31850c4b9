// bench/judge/suite.h - trains pipelines several times each and compares the results with
// baselines.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/judge/baseline.h"
#include "bench/judge/verdict.h"

namespace emblem {

enum class Colour { kNone, kAnsi };

// One block per pipeline: its verdict; mean, standard deviation, 95 % interval and baseline of each
// metric; the last log lines of failed runs.
std::string suite_text(const std::vector<ConfigOutcome>& outcomes, Colour colour);

// One line: "2 pipelines: 1 BALANCED, 1 WORSE"
std::string suite_summary(const std::vector<ConfigOutcome>& outcomes);

// One test case per pipeline: WORSE is a failure, UNRELIABLE an error with the last log lines of
// its failed runs.
std::string junit_xml(const std::vector<ConfigOutcome>& outcomes);

struct SuiteOptions {
  std::vector<std::string> configs;  // see find_configs
  std::vector<Baseline> baselines;
  int64_t runs = 0;                    // runs of each pipeline; 0: as its baseline says, or 3
  int64_t first_seed = 1;              // run i trains with first_seed + i
  double timeout_seconds = 20000;      // limit of one run
  std::vector<std::string> overrides;  // "path=value", for every pipeline
  std::vector<std::string> arguments;  // further options of `emblem train`
  std::string program;                 // the emblem program that trains
  std::string out;                     // folder; finished runs in it are not repeated
  enum class Models { kRemove, kKeep } models = Models::kRemove;
};

// The file, or every *.config below the folder, sorted.
std::vector<std::string> find_configs(const std::string& path);

// One process per run. OUT/logs has the output of runs, OUT/runs their results. A run that crashes
// or times out is a failed run; the suite continues. An interruption (core/system/interrupt.h)
// throws Error (kCancelled); called again with the same options, the suite continues after the last
// finished run. Throws when OUT holds a finished suite, or an unfinished one with other options.
// `announce` is called with a line before each run and for each run that was finished earlier.
std::vector<ConfigOutcome> run_suite(const SuiteOptions& options,
                                     const std::function<void(const std::string&)>& announce);

// The content of OUT/suite.json, which marks the suite as finished.
std::vector<BenchResult> suite_results(const std::vector<ConfigOutcome>& outcomes);
void finish_suite(const std::string& out, const std::vector<ConfigOutcome>& outcomes);

}  // namespace emblem
