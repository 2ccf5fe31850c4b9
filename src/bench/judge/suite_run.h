// bench/judge/suite_run.h - one training run of a suite, in a process of its own, remembered in a
// file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/judge/verdict.h"

namespace emblem {

struct RunPlan {
  std::string config;
  std::string name;  // of its files
  int64_t seed = 1;
  std::vector<std::string> overrides, arguments;
  double timeout_seconds = 0;
  std::string program;
  std::string out;
  bool keep_model = false;
};

// Trains from the beginning, whatever an interrupted run left, and remembers the outcome. Throws
// Error (kCancelled) when interrupted, and then remembers nothing.
SuiteRun execute_run(const RunPlan& plan);

// What a finished run left; nothing where none did.
std::optional<SuiteRun> read_run(const RunPlan& plan);

// The last `count` lines of a file that are not empty; fewer where there are fewer.
std::vector<std::string> last_lines(const std::string& path, size_t count);

}  // namespace emblem
