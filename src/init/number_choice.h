// init/number_choice.h - how a column of numbers or dates is read and normalized.
#pragma once

#include "init/column_choice.h"

namespace emblem {

// Of a column of numbers, amounts or vectors.
ColumnChoice as_number(const ColumnProfile& column, ColumnChoice choice);

// Fills normalizer, na_strings, missing_share and warning of a kDate.
void choose_date_numbers(const ColumnProfile& column, const DateProfile& dates,
                         ColumnChoice& choice);

}  // namespace emblem
