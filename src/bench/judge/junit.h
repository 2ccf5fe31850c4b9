// bench/judge/junit.h - a suite's outcome in the form that continuous integration shows.
#pragma once

#include <string>
#include <vector>

#include "bench/judge/verdict.h"

namespace emblem {

// One test case a pipeline: WORSE is a failure, UNRELIABLE an error with the last lines of its
// failed runs' logs.
std::string junit_xml(const std::vector<ConfigOutcome>& outcomes);

}  // namespace emblem
