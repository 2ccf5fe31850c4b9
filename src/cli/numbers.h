// cli/numbers.h - checks of numbers on the command line, with errors that name value and
// expectation; the option's name comes from CLI11.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>

namespace emblem {

// "--max-steps: -3 is not a whole number of at least 1"
CLI::Validator whole_number_from(int64_t least);

}  // namespace emblem
