#include "init/holdout_choice.h"

#include <algorithm>

#include "data/feature/column_requests.h"
#include "init/column_kind.h"

namespace emblem {
namespace {

// Single values that are equal in files of all formats. Dates are not: they are numbers in some.
bool is_comparable(const ColumnProfile& column) {
  return column.is_text_file && !column.is_list && column.unusable.empty() &&
         column.present() > 0 && dates_of(column) == nullptr;
}

bool is_key(const ColumnProfile& column) {
  return column.present() == column.rows && column.rows >= 50 &&
         static_cast<double>(column.distinct_count()) > 0.98 * static_cast<double>(column.rows);
}

}  // namespace

std::vector<std::string> choose_holdout_fields(const DataProfile& profile,
                                               const std::vector<ColumnChoice>& columns) {
  constexpr size_t kMostFields = 16;
  constexpr double kFewestContents = 200;  // for a share of them to be near that of the rows
  if (!reads_as_requested(profile.source.type)) return {};
  std::vector<const ColumnProfile*> candidates;
  double contents = 0;       // different ones among the values of the candidates, at least
  bool have_others = false;  // columns that differ, but are no candidates
  for (size_t i = 0; i < columns.size(); ++i) {
    const ColumnProfile& column = profile.columns[i];
    if (columns[i].use == ColumnUse::kLabel) continue;
    const bool is_used = columns[i].use != ColumnUse::kSkipped && is_comparable(column);
    if (is_used) {
      candidates.push_back(&column);
      contents = std::max(contents, static_cast<double>(column.distinct_count()));
    } else if (column.distinct_count() > 1 || column.missing > 0) {
      have_others = true;
    }
    if (!is_comparable(column) || !is_key(column)) continue;
    const bool is_text_key =
        !is_numeric(column) && list_of(column) == nullptr && columns[i].use == ColumnUse::kSkipped;
    if (is_integer(column) || is_text_key) return {column.name};
  }
  if (!have_others && candidates.size() <= kMostFields) contents = profile.distinct_rows;
  if (contents < std::min(kFewestContents, 0.5 * static_cast<double>(profile.rows_read))) return {};
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const ColumnProfile* a, const ColumnProfile* b) {
                     return a->distinct_count() > b->distinct_count();
                   });
  if (candidates.size() > kMostFields) candidates.resize(kMostFields);
  std::vector<std::string> names;
  for (const ColumnProfile* column : candidates) names.push_back(column->name);
  return names;
}

}  // namespace emblem
