// bench/judge/suite.h - trains pipelines several times each and judges what they reach by
// baselines.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/judge/baseline.h"
#include "bench/judge/verdict.h"

namespace emblem {

struct SuiteOptions {
  std::vector<std::string> configs;  // see find_configs
  std::vector<Baseline> baselines;
  int64_t runs = 0;                    // of each pipeline; 0: as its baseline says, or 3
  int64_t first_seed = 1;              // run i trains with first_seed + i
  double timeout_seconds = 20000;      // of one run
  std::vector<std::string> overrides;  // "path=value", for every pipeline
  std::vector<std::string> arguments;  // more of `emblem train`
  std::string program;                 // the emblem that trains
  std::string out;                     // folder; what was done there is not done again
  enum class Models { kRemove, kKeep } models = Models::kRemove;
};

// The file, or every *.config below the folder, sorted.
std::vector<std::string> find_configs(const std::string& path);

// One process a run. OUT/logs has what runs print, OUT/runs what they found. A run that crashes or
// times out is a failed run, and the next goes on. An interruption (core/interrupt.h) throws Error
// (kCancelled); called again with the same options, the suite goes on behind the last finished run.
// Throws when OUT holds a finished suite, or an unfinished one of other options. `announce` is
// called with a line before each run, and for each that was already done.
std::vector<ConfigOutcome> run_suite(const SuiteOptions& options,
                                     const std::function<void(const std::string&)>& announce);

// What OUT/suite.json gets; with it the suite counts as finished.
std::vector<BenchResult> suite_results(const std::vector<ConfigOutcome>& outcomes);
void finish_suite(const std::string& out, const std::vector<ConfigOutcome>& outcomes);

}  // namespace emblem
