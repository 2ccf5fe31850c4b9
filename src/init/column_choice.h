// init/column_choice.h - which features a column becomes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "init/sample.h"

namespace emblem {

// What the user says about columns.
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

enum class ColumnUse { kNumber, kCategory, kSequence, kDate, kSkipped, kLabel, kWeight };

struct ColumnChoice {
  ColumnUse use = ColumnUse::kSkipped;
  std::string found;      // what it holds: "integer", "number", "text", "list", "date", ...
  std::string why;        // kSkipped: the reason
  std::string warning;    // one line about the column, or ""
  std::string separator;  // kCategory, kSequence: of several values; "": one value
  int64_t distinct = 0;   // kCategory: values to make room for, estimated for the whole data set
  // kCategory: all values that the sample has, a row of the table each; empty: too many of them,
  // they get a dynamic table.
  std::vector<std::string> vocabulary;
  // Texts like "NA" that are values in this column, although they are missing ones in numbers.
  int64_t absent_values = 0;
  double missing_share = 0;             // share of the rows, as training sees them
  std::string normalizer;               // kNumber; kDate: of the days
  std::vector<std::string> na_strings;  // kNumber: missing values that the loader does not know
  double median = 0;                    // kNumber
  std::vector<double> quantiles;        // kNumber: at equal distances, from the least to the most
  int64_t value_dim = 0;                // kNumber: of a vector
  config::NumberFormat number_format = config::PLAIN;  // kNumber
  std::vector<config::DatePart> parts;                 // kDate
  bool day_first = false;                              // kDate
  std::string target;   // kSequence: the column of single values that its elements are like
  int64_t longest = 0;  // kSequence: elements of a row
};

// One for each column of the profile. Throws Error for wishes that name no column or contradict
// each other.
std::vector<ColumnChoice> choose_columns(const DataProfile& profile, const ColumnWishes& wishes);

}  // namespace emblem
