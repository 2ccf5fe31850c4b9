// bench/judge/suite_run.h - one training run of a suite in its own process; its outcome is kept in
// a file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/judge/verdict.h"

namespace emblem {

struct RunPlan {
  std::string config;
  std::string name;  // prefix of its files
  int64_t seed = 1;
  std::vector<std::string> overrides, arguments;
  double timeout_seconds = 0;
  std::string program;
  std::string out;
  bool keep_model = false;
};

// Trains from the beginning (files of an interrupted run are removed) and writes the outcome to a
// file. Throws Error (kCancelled) when interrupted; then no outcome is written.
SuiteRun execute_run(const RunPlan& plan);

// The outcome of a finished run; none if the run has not finished.
std::optional<SuiteRun> read_run(const RunPlan& plan);

// The last `count` non-empty lines of a file, or fewer if it has fewer.
std::vector<std::string> last_lines(const std::string& path, size_t count);

}  // namespace emblem
