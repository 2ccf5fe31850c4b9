// config/load/run_names.h - the size of runs of names like c{1..26} before they are made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace emblem {

constexpr int64_t kLongestRun = 100000;  // a slip of the keyboard should not fill the memory

// About how many names the runs in a pipeline's text stand for.
size_t names_of_runs(std::string_view text);

}  // namespace emblem
