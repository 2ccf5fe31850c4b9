// bench/judge/junit.h - the outcome of a suite as JUnit XML, for continuous integration.
#pragma once

#include <string>
#include <vector>

#include "bench/judge/verdict.h"

namespace emblem {

// One test case per pipeline: WORSE is a failure, UNRELIABLE an error with the last log lines of
// its failed runs.
std::string junit_xml(const std::vector<ConfigOutcome>& outcomes);

}  // namespace emblem
