#include "data/format/encoder.h"

#include <cmath>
#include <limits>

#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

int index_of(const std::vector<ColumnSpec>& schema, const std::string& name) {
  std::vector<std::string> names;
  for (size_t i = 0; i < schema.size(); ++i) {
    if (schema[i].name == name) return static_cast<int>(i);
    names.push_back(schema[i].name);
  }
  const auto nearest = nearest_name(name, names);
  throw Error(ErrorCode::kNotFound, cat("there is no column '", name, "' in the input",
                                        nearest ? "; did you mean '" + *nearest + "'?" : ""));
}

std::vector<int> indices_of(const std::vector<ColumnSpec>& schema,
                            const std::vector<std::string>& names) {
  std::vector<int> indices;
  for (const std::string& name : names) indices.push_back(index_of(schema, name));
  return indices;
}

bool is_numbered(const std::string& name, char letter) {
  return name.size() > 1 && name[0] == letter &&
         name.find_first_not_of("0123456789", 1) == std::string::npos;
}

// label, I1.., C1..: names that say what a column is, whatever type a reader has guessed for it.
bool has_criteo_names(const std::vector<ColumnSpec>& schema) {
  int labels = 0;
  for (const ColumnSpec& column : schema) {
    labels += column.name == "label";
    if (column.name != "label" && !is_numbered(column.name, 'I') &&
        !is_numbered(column.name, 'C')) {
      return false;
    }
  }
  return labels == 1;
}

int label_of(const std::vector<ColumnSpec>& schema, const WriterOptions& options) {
  if (!options.label_field.empty()) return index_of(schema, options.label_field);
  for (size_t i = 0; i < schema.size(); ++i) {
    if (schema[i].name == "label") return static_cast<int>(i);
  }
  return 0;
}

ColumnRoles assign(const std::vector<ColumnSpec>& schema, const WriterOptions& options) {
  ColumnRoles roles;
  roles.label = label_of(schema, options);
  if (!options.dense_fields.empty() || !options.sparse_fields.empty()) {
    roles.dense = indices_of(schema, options.dense_fields);
    roles.sparse = indices_of(schema, options.sparse_fields);
    return roles;
  }
  const bool by_name = has_criteo_names(schema);
  for (int i = 0; i < static_cast<int>(schema.size()); ++i) {
    if (i == roles.label) continue;
    const bool dense = by_name ? schema[i].name[0] == 'I' : schema[i].type == ColumnType::kFloat;
    (dense ? roles.dense : roles.sparse).push_back(i);
  }
  return roles;
}

}  // namespace

ColumnRoles column_roles(const std::vector<ColumnSpec>& schema, const WriterOptions& options,
                         const std::string& format) {
  EMBLEM_REQUIRE(!schema.empty(), "there are no columns to write");
  const ColumnRoles roles = assign(schema, options);
  auto is_number = [&](int column) {
    EMBLEM_REQUIRE(schema[column].type != ColumnType::kText, "column '", schema[column].name,
                   "' is text, but ", format, " holds numbers only; write csv instead");
  };
  is_number(roles.label);
  for (const int column : roles.dense) is_number(column);
  for (const int column : roles.sparse) {
    is_number(column);
    EMBLEM_REQUIRE(schema[column].type == ColumnType::kInt64, "column '", schema[column].name,
                   "' holds fractions, but a category in ", format,
                   " is a whole number; name it among the dense fields or write csv instead");
  }
  return roles;
}

double number_at(const Column& column, int64_t row) {
  if (column.type == ColumnType::kFloat) return column.floats[row];
  if (column.is_marked_missing(static_cast<size_t>(row)))
    return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(column.ints[row]);
}

}  // namespace emblem
