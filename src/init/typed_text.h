// init/typed_text.h - values of columnar files as the text that a CSV file would have.
#pragma once

#include "data/format/block.h"

namespace emblem {

// Numbers become decimal ones, dates and timestamps begin with "2026-11-18". One value a row.
void typed_as_text(const ColumnSpec& spec, Column& column);

}  // namespace emblem
