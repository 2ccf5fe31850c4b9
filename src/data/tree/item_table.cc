#include "data/tree/item_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <unordered_map>

#include "core/system/interrupt.h"
#include "core/text/parse_number.h"
#include "core/text/text.h"
#include "data/format/decoder.h"
#include "data/tree/node_attributes.h"
#include "data/tree/tree_files.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// The value of a row as text; "" where it is missing.
std::string text_of(const ColumnSpec& spec, const Column& column, size_t row) {
  switch (column.type) {
    case ColumnType::kInt64:
      if (column.is_marked_missing(row)) return "";
      return spec.stored == "uint64" ? cat(static_cast<uint64_t>(column.ints[row]))
                                     : cat(column.ints[row]);
    case ColumnType::kFloat:
      return std::isnan(column.floats[row]) ? "" : fmt::format("{}", column.floats[row]);
    case ColumnType::kText:
      break;
  }
  return std::string(text_at(column, row));
}

// Gives each row of a data set, with a text for each of the columns, to take(texts).
template <class Take>
void each_row(const DataSource& source, const std::vector<std::string>& names, const Take& take) {
  const auto reader = open_reader(source);
  std::vector<size_t> places;
  for (const std::string& name : names)
    places.push_back(static_cast<size_t>(find_column(reader->schema(), name, source.input)));
  std::vector<std::string> texts(names.size());
  for (Block block; reader->next(block);) {
    if (interrupted()) throw Error(ErrorCode::kCancelled, "interrupted");
    for (size_t row = 0; row < static_cast<size_t>(block.rows); ++row) {
      for (size_t i = 0; i < places.size(); ++i) {
        const Column& column = block.columns[places[i]];
        EMBLEM_REQUIRE(column.offsets.empty() && column.sequence_offsets.empty(), source.input,
                       ": column \"", printable(names[i]),
                       "\" has lists, expected one value a row");
        texts[i] = text_of(reader->schema()[places[i]], column, row);
      }
      take(texts);
    }
  }
}

int64_t id_of(const std::string& text, const std::string& column, const std::string& input,
              size_t item) {
  const auto id = parse_number<int64_t>(text);
  EMBLEM_REQUIRE(id.has_value(), input, ", row ", item + 1, ": column \"", printable(column),
                 "\" is \"", printable(text),
                 "\", expected the id of an item, a whole number of 64 bits");
  return *id;
}

DataSource with_exact_values(DataSource source) {
  source.natural = NaturalTypes::kExact;
  return source;
}

}  // namespace

TreeItems read_item_table(const DataSource& source, const ItemTableColumns& columns) {
  std::vector<std::string> names = {columns.id};
  const bool has_category = !columns.category.empty();
  if (has_category) names.push_back(columns.category);
  const size_t first = names.size();
  names.insert(names.end(), columns.attributes.begin(), columns.attributes.end());
  names.insert(names.end(), columns.mean_attributes.begin(), columns.mean_attributes.end());
  TreeItems items;
  items.attributes.resize(names.size() - first);
  each_row(with_exact_values(source), names, [&](const std::vector<std::string>& texts) {
    items.ids.push_back(id_of(texts[0], columns.id, source.input, items.ids.size()));
    if (has_category) items.categories.push_back(texts[1]);
    for (size_t i = first; i < texts.size(); ++i) items.attributes[i - first].push_back(texts[i]);
  });
  return items;
}

std::vector<size_t> order_by_category(const TreeItems& items) {
  std::vector<size_t> order(items.ids.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t a, size_t b) {
    return std::tie(items.categories[a], items.ids[a]) <
           std::tie(items.categories[b], items.ids[b]);
  });
  return order;
}

ItemTableVectors read_item_vectors(const DataSource& source, const std::string& id) {
  std::vector<std::string> names = {id};
  const auto reader = open_reader(source);
  for (const ColumnSpec& column : reader->schema())
    if (column.name != id) names.push_back(column.name);
  ItemTableVectors vectors{.dim = std::ssize(names) - 1};
  EMBLEM_REQUIRE(vectors.dim > 0, source.input, " has no columns besides \"", printable(id),
                 "\", expected the elements of vectors");
  each_row(source, names, [&](const std::vector<std::string>& texts) {
    vectors.ids.push_back(id_of(texts[0], id, source.input, vectors.ids.size()));
    for (size_t i = 1; i < texts.size(); ++i) {
      const auto value = parse_number<float>(texts[i]);
      EMBLEM_REQUIRE(value && std::isfinite(*value), source.input, ", row ", vectors.ids.size(),
                     ": column \"", printable(names[i]), "\" is \"", printable(texts[i]),
                     "\", expected a number, an element of a vector");
      vectors.values.push_back(*value);
    }
  });
  return vectors;
}

ItemTree write_item_tree(const TreeItems& items, const ItemTableColumns& columns,
                         const std::vector<size_t>& order, int64_t clusters, char attr_delimiter,
                         const std::string& folder) {
  std::vector<int64_t> ids;
  for (const size_t item : order) ids.push_back(items.ids[item]);
  ItemTree tree = ItemTree::of_order(ids, clusters);
  std::unordered_map<int64_t, size_t> places;
  for (const size_t item : order) places.emplace(items.ids[item], item);
  std::vector<std::vector<std::string>> attributes;
  for (size_t i = 0; i < items.attributes.size(); ++i) {
    std::vector<std::string> of_leaves;
    for (int32_t leaf = tree.leaves().begin; leaf < tree.leaves().end; ++leaf)
      of_leaves.push_back(items.attributes[i][places.at(tree.id(leaf))]);
    const size_t modes = columns.attributes.size();
    attributes.push_back(
        i < modes
            ? modes_of_nodes(tree, std::move(of_leaves))
            : means_of_nodes(tree, std::move(of_leaves),
                             cat("attribute \"", printable(columns.mean_attributes[i - modes]),
                                 "\" of an item")));
  }
  write_tree(folder, tree, attributes, attr_delimiter);
  return tree;
}

}  // namespace emblem
