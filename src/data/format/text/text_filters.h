// data/format/text/text_filters.h - conditions on rows of text: CSV, Criteo TSV, libfm, messages of
// streams.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/format/rows/row_filter.h"
#include "data/format/text/csv_field.h"

namespace emblem {

// A column whose type is known is compared by it. Of others the condition says what the values
// are (RowFilter::literals). Made once; keep may run concurrently.
class TextFilters {
 public:
  // Throws Error for what is not a condition.
  TextFilters(const std::vector<std::string>& conditions,
              const std::vector<std::string>& na_strings);

  bool empty() const { return filters_.empty(); }
  size_t size() const { return filters_.size(); }
  const RowFilter& operator[](size_t i) const { return filters_[i]; }

  // The type of the column of condition `i`. Throws Error that names `source` when its values are
  // numbers and are compared to text.
  void set_type(size_t i, ColumnType type, const std::string& source);

  // Whether a row fulfils all conditions; values[i] is the text of the column of condition `i`.
  // Sets `problem` where that cannot be said.
  bool keep(std::span<const std::string> values, std::string& problem) const;

 private:
  using Literals = RowFilter::Literals;

  bool keep(size_t i, std::string_view text, std::string& problem) const;

  std::vector<RowFilter> filters_;
  std::vector<Literals> literals_;  // by condition
  MissingTexts missing_;
};

}  // namespace emblem
