// bench/judge/suite_text.h - a suite's outcome for people.
#pragma once

#include <string>
#include <vector>

#include "bench/judge/verdict.h"

namespace emblem {

enum class Colour { kNone, kAnsi };

// A block a pipeline: its verdict, each metric's mean, standard deviation, 95 % interval and
// baseline, and the last lines of failed runs' logs.
std::string suite_text(const std::vector<ConfigOutcome>& outcomes, Colour colour);

// One line: "2 pipelines: 1 BALANCED, 1 WORSE"
std::string suite_summary(const std::vector<ConfigOutcome>& outcomes);

}  // namespace emblem
