#include "data/feature/bags.h"

#include <algorithm>
#include <cmath>

#include "data/format/text/number_text.h"
#include "data/format/text/text_scan.h"

namespace emblem {
namespace {

bool any_empty_text(const Column& column) {
  if (column.dictionary != nullptr) return true;  // decided value by value
  uint32_t before = 0;
  for (const uint32_t end : column.text_ends) {
    if (end == before) return true;
    before = end;
  }
  return false;
}

// The elements of a row: [begin, begin + count) of the column's.
struct Elements {
  int64_t begin = 0;
  int64_t count = 0;
};

Elements elements_of(const Column& column, int64_t row) {
  const HostVector<int32_t>& offsets =
      column.sequence_offsets.empty() ? column.offsets : column.sequence_offsets;
  if (offsets.empty()) {
    const bool missing = is_missing_at(column, static_cast<size_t>(row));
    return {row, missing ? 0 : 1};
  }
  return {offsets[row], offsets[row + 1] - offsets[row]};
}

// Nearly always there is none: one pass without branches.
template <class Number>
bool any_smallest(const HostVector<Number>& values) {
  int found = 0;
  for (const Number value : values) found |= static_cast<int>(value == Number{kMissingId});
  return found != 0;
}

}  // namespace

void mark_missing_numbers(Column& column) {
  if (any_smallest(column.floats))
    std::replace_if(
        column.floats.begin(), column.floats.end(), [](float x) { return is_missing_number(x); },
        kMissing);
  if (!any_smallest(column.ints)) return;
  column.missing.resize(column.ints.size(), 0);
  for (size_t i = 0; i < column.ints.size(); ++i)
    if (is_missing_number(column.ints[i])) column.missing[i] = 1;
}

bool any_missing(const Column& column) {
  switch (column.type) {
    case ColumnType::kInt64:
      return !column.missing.empty();
    case ColumnType::kText:
      return any_empty_text(column);
    case ColumnType::kFloat:
      break;
  }
  return true;  // decided value by value
}

void find_elements(const Column& column, int64_t rows, const SequenceRule& rule,
                   const std::vector<int32_t>* lengths, SequenceBags& out) {
  const bool has_bags = !column.sequence_offsets.empty() && !column.offsets.empty();
  out.begins.clear();
  out.ends.clear();
  out.rows.clear();
  out.offsets.assign(1, 0);
  out.cut = 0;
  out.fitted = 0;
  const auto add = [&](int64_t begin, int64_t end, int64_t row) {
    out.begins.push_back(static_cast<int32_t>(begin));
    out.ends.push_back(static_cast<int32_t>(end));
    out.rows.push_back(static_cast<int32_t>(row));
  };
  for (int64_t row = 0; row < rows; ++row) {
    const Elements elements = elements_of(column, row);
    int64_t count = elements.count;
    if (rule.max_length > 0 && count > rule.max_length) {
      count = rule.max_length;
      ++out.cut;
    }
    const bool is_filled = count == 0 && rule.has_element;
    const int64_t own = is_filled ? 1 : count;
    const int64_t wanted = lengths == nullptr ? own
                                              : (*lengths)[static_cast<size_t>(row + 1)] -
                                                    (*lengths)[static_cast<size_t>(row)];
    out.fitted += own != wanted;
    for (int64_t i = 0; i < std::min(count, wanted); ++i) {
      const int64_t at = elements.begin + i;
      add(has_bags ? column.offsets[at] : at, has_bags ? column.offsets[at + 1] : at + 1, row);
    }
    if (is_filled && wanted > 0) add(0, 0, row);
    for (int64_t i = own; i < wanted; ++i) add(BagView::kPadding, BagView::kPadding, row);
    out.offsets.push_back(static_cast<int32_t>(out.begins.size()));
  }
}

}  // namespace emblem
