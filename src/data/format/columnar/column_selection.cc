#include "data/format/columnar/column_selection.h"

#include <algorithm>

#include "emblem/error.h"

namespace emblem {
namespace {

std::vector<ColumnSpec> names_of(const std::vector<ColumnarField>& fields) {
  std::vector<ColumnSpec> names;
  for (const ColumnarField& field : fields) names.push_back({field.name, ColumnType::kText});
  return names;
}

}  // namespace

ColumnSelection::ColumnSelection(const DataSource& source,
                                 const std::vector<ColumnRequest>* requests,
                                 const std::vector<ColumnarField>& of_first,
                                 const std::string& first_path)
    : all_columns(requests == nullptr),
      first(first_path),
      names(names_of(of_first)),
      filters(row_filters(source.filters)) {
  const auto add = [&](const ColumnarField& field, const ColumnRequest* request,
                       NaturalTypes natural = NaturalTypes::kNumbers) {
    fields.push_back(field);
    fits.emplace_back(field, request, source.na_strings, first, natural);
  };
  const auto field_at = [&](int at) -> const ColumnarField& {
    return of_first[static_cast<size_t>(at)];
  };
  if (requests == nullptr) {
    for (const ColumnSpec& name : names) find_column(names, name.name, first);  // each once
    for (const ColumnarField& field : of_first)
      if (field.type != LeafType::kOther) add(field, nullptr, source.natural);
  } else {
    for (const ColumnRequest& request : *requests)
      add(field_at(find_column(names, request.name, first)), &request);
  }
  for (const ColumnFit& fit : fits) columns.push_back(fit.spec());
  for (RowFilter& filter : filters) {
    const ColumnarField& field = field_at(find_column(names, filter, first));
    filter.set_field(field, first);
    filter.set_missing(source.na_strings);
    add(field, nullptr, NaturalTypes::kExact);
  }
  for (const std::string& name : source.keep)
    add(field_at(find_column(names, name, first)), nullptr, NaturalTypes::kExact);
}

std::vector<ColumnRead> ColumnSelection::reads(const std::vector<ColumnarField>& of_file,
                                               const std::string& path) const {
  std::vector<ColumnRead> reads;
  for (size_t i = 0; i < fields.size(); ++i) {
    const ColumnarField& field = fields[i];
    const auto same = std::find_if(of_file.begin(), of_file.end(), [&](const ColumnarField& other) {
      return other.name == field.name;
    });
    EMBLEM_REQUIRE(same != of_file.end(), path, " has no column ", in_quotes(field.name),
                   ", which ", first, " has; expected files with the same columns");
    EMBLEM_REQUIRE(same->type_text == field.type_text, path, ": column ", in_quotes(field.name),
                   " is ", same->type_text, ", but it is ", field.type_text, " in ", first,
                   "; expected the same types in all files");
    reads.push_back(fits[i].read(static_cast<int>(same - of_file.begin())));
  }
  for (const ColumnarField& field : of_file) {
    const bool is_known =
        !all_columns || std::any_of(names.begin(), names.end(), [&](const ColumnSpec& other) {
          return other.name == field.name;
        });
    EMBLEM_REQUIRE(is_known, path, " has the column ", in_quotes(field.name), ", which ", first,
                   " does not have; expected files with the same columns");
  }
  return reads;
}

}  // namespace emblem
