// init/column_wishes.h - what the user says about columns.
#pragma once

#include <string>
#include <vector>

#include "init/sample.h"

namespace emblem {

struct ColumnWishes {
  std::string label, weight;
  std::vector<std::string> categories, numbers, skipped;

  // Whether the user says what the column is.
  bool names(const std::string& column) const;
};

bool contains(const std::vector<std::string>& names, const std::string& name);

// Throws Error when a wish names no column of the data, which lists the columns, or names one
// twice.
void check_wishes(const DataProfile& profile, const ColumnWishes& wishes);

// Quoted names, about a line of them.
std::string column_list(const DataProfile& profile);

}  // namespace emblem
