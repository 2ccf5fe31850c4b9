// init/column_table.h - the columns of a data set and what became of them, for the terminal.
#pragma once

#include <string>
#include <vector>

#include "init/column_choice.h"
#include "init/label_choice.h"

namespace emblem {

// Lines of at most 100 characters.
std::string column_table(const DataProfile& profile, const std::vector<ColumnChoice>& columns,
                         const LabelChoice& label);

}  // namespace emblem
