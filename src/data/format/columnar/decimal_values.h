// data/format/columnar/decimal_values.h - decimal numbers of up to 256 bits, by Arrow's arithmetic.
#pragma once

#include <cstdint>
#include <vector>

#include "data/format/columnar/columnar_field.h"

namespace emblem {

// Appends the number with `scale` digits after the point that `bytes` bytes hold: as text with all
// digits where `exact`, as a double, or with scale 0 as an integer, which may be too large for 64
// bits. Throws Error where it has too many bytes, or in a build without Arrow.
void append_big_endian_decimal(const uint8_t* value, int bytes, int scale, bool exact, Column& out,
                               std::vector<ValueProblem>& problems);
// `bytes` is 16 or 32.
void append_little_endian_decimal(const uint8_t* value, int bytes, int scale, bool exact,
                                  Column& out, std::vector<ValueProblem>& problems);

}  // namespace emblem
