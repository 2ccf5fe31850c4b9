// data/format/rows/select_rows.h - some rows of a column, in any order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/format/decoder.h"
#include "data/format/rows/column_fit.h"

namespace emblem {

// Row i becomes what row rows[i] was. `scratch` is overwritten; its memory is reused.
void select_rows(std::span<const int32_t> rows, Column& column, Column& scratch);

// piece.block and piece.positions become those of `rows`, in that order, without rows that have
// `problems`: these are added to piece.bad and bad_positions, with the first problem of each.
// `problems` is sorted; `scratch` is overwritten.
void take_rows(std::span<const int32_t> rows, std::vector<RowProblem>& problems, Column& scratch,
               DecodedPiece& piece);

}  // namespace emblem
