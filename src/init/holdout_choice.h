// init/holdout_choice.h - the columns whose values decide which rows are held out.
#pragma once

#include <string>
#include <vector>

#include "init/column_choice.h"

namespace emblem {

// A column that has another value in each row, else the used columns with the most values; none
// where many rows are equal: they would all be on one side.
std::vector<std::string> choose_holdout_fields(const DataProfile& profile,
                                               const std::vector<ColumnChoice>& columns);

}  // namespace emblem
