#include "data/format/block.h"

#include <cmath>
#include <cstring>

#include "emblem/error.h"

namespace emblem {

void Column::clear(ColumnType of_type) {
  type = of_type;
  floats.clear();
  ints.clear();
  text.clear();
  text_ends.clear();
  missing.clear();
  offsets.clear();
  weights.clear();
  sequence_offsets.clear();
  dictionary.reset();
  codes.clear();
}

void Column::resize_values(size_t count) {
  if (type == ColumnType::kFloat) floats.resize(count);
  if (type == ColumnType::kInt64) ints.resize(count);
  if (type != ColumnType::kText) return;
  text_ends.resize(count);
  text.resize(count == 0 ? 0 : text_ends.back());
}

bool is_missing_at(const Column& column, size_t at) {
  switch (column.type) {
    case ColumnType::kInt64:
      return column.is_marked_missing(at);
    case ColumnType::kText:
      if (column.dictionary != nullptr)
        return column.codes[at] < 0 ||
               (*column.dictionary)[static_cast<size_t>(column.codes[at])].empty();
      return text_at(column, at).empty();
    case ColumnType::kFloat:
      break;
  }
  return std::isnan(column.floats[at]);
}

void drop_missing_if_none(Column& column) {
  const HostVector<uint8_t>& missing = column.missing;
  if (missing.empty() || std::memchr(missing.data(), 1, missing.size()) == nullptr)
    column.missing.clear();
}

size_t values_in(const Column& column) {
  switch (column.type) {
    case ColumnType::kFloat:
      return column.floats.size();
    case ColumnType::kInt64:
      return column.ints.size();
    case ColumnType::kText:
      break;
  }
  return column.dictionary != nullptr ? column.codes.size() : column.text_ends.size();
}

void expand_codes(Column& column) {
  if (column.dictionary == nullptr) return;
  const TextDictionary& dictionary = *column.dictionary;
  column.text.clear();
  column.text_ends.resize(column.codes.size());
  for (size_t i = 0; i < column.codes.size(); ++i) {
    if (column.codes[i] >= 0) column.text += dictionary[static_cast<size_t>(column.codes[i])];
    column.text_ends[i] = static_cast<uint32_t>(column.text.size());
  }
  EMBLEM_REQUIRE(column.text.size() <= UINT32_MAX, "a column has ", column.text.size(),
                 " bytes of text in a piece; expected less than 4 GiB: use smaller batches");
  column.dictionary.reset();
  column.codes.clear();
}

std::vector<ColumnSpec> criteo_schema(int num_dense, int num_sparse) {
  std::vector<ColumnSpec> schema = {{"label", ColumnType::kFloat}};
  for (int i = 1; i <= num_dense; ++i) schema.push_back({cat("I", i), ColumnType::kFloat});
  for (int i = 1; i <= num_sparse; ++i) schema.push_back({cat("C", i), ColumnType::kInt64});
  return schema;
}

}  // namespace emblem
