// init/column_choice.h - which feature a column becomes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "init/sample.h"

namespace emblem {

enum class ColumnUse { kNumber, kCategory, kSkipped, kLabel, kWeight };

struct ColumnChoice {
  ColumnUse use = ColumnUse::kSkipped;
  std::string found;      // what it holds: "integer", "number", "text", "list", "date", ...
  std::string why;        // kSkipped: the reason
  std::string warning;    // one line about the column, or ""
  std::string separator;  // kCategory: of several values; "": one value
  int64_t distinct = 0;   // kCategory: values to make room for, estimated for the whole data set
  // Texts like "NA" that are values in this column, although they are missing ones in numbers.
  int64_t absent_values = 0;
  double missing_share = 0;   // of the rows, as training sees them
  std::string normalizer;     // kNumber
  int64_t value_dim = 0;      // kNumber: of a vector
  std::string default_value;  // kNumber: for a missing value, after the normalizer
};

// What the user says about columns.
struct ColumnWishes {
  std::string label, weight;
  std::vector<std::string> categories, numbers, skipped;
};

// One for each column of the profile. Throws Error for wishes that name no column or contradict
// each other.
std::vector<ColumnChoice> choose_columns(const DataProfile& profile, const ColumnWishes& wishes);

// Texts of numeric columns that stand for missing values, or are too few to be more than mistakes,
// and that the loader does not know: with
// them data_config.na_strings is needed, which then has to list the known ones too. Empty: not
// needed.
std::vector<std::string> na_strings_for(const DataProfile& profile,
                                        const std::vector<ColumnChoice>& choices);

}  // namespace emblem
