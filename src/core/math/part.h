// core/math/part.h - a range cut into parts as equal as they can be.
#pragma once

#include <cstdint>

namespace emblem {

// Where part `part` of `parts` of [begin, end) begins; part `parts` begins at the end.
constexpr int64_t part_begin(int64_t begin, int64_t end, int64_t part, int64_t parts) {
  return begin + part * (end - begin) / parts;
}

}  // namespace emblem
