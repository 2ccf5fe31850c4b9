// bench/judge/suite_text.h - the outcome of a suite as text for a terminal.
#pragma once

#include <string>
#include <vector>

#include "bench/judge/verdict.h"

namespace emblem {

enum class Colour { kNone, kAnsi };

// One block per pipeline: its verdict; mean, standard deviation, 95 % interval and baseline of each
// metric; the last log lines of failed runs.
std::string suite_text(const std::vector<ConfigOutcome>& outcomes, Colour colour);

// One line: "2 pipelines: 1 BALANCED, 1 WORSE"
std::string suite_summary(const std::vector<ConfigOutcome>& outcomes);

}  // namespace emblem
