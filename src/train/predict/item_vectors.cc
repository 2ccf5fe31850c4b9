#include "train/predict/item_vectors.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>
#include <unordered_set>

#include "core/text/text.h"
#include "data/format/text/csv_types.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr const char* kItemVectors = "item_tower_emb";
constexpr size_t kMostAttributes = 64;

bool attribute_of(const std::string& text, const std::string& column, const std::string& where) {
  for (const char* yes : {"1", "true", "True", "TRUE"})
    if (text == yes) return true;
  for (const char* no : {"", "0", "false", "False", "FALSE"})
    if (text == no) return false;
  throw Error(ErrorCode::kInvalidArgument,
              cat(where, ": column \"", printable(column), "\" is \"", printable(text),
                  "\", expected 1, 0, true or false, whether the item has the attribute"));
}

void check_columns(const ItemColumns& columns) {
  EMBLEM_REQUIRE(columns.attributes.size() <= kMostAttributes, "items have at most ",
                 kMostAttributes, " attributes, not ", columns.attributes.size());
  std::unordered_set<std::string> names;
  for (const std::string& name : columns.attributes) {
    EMBLEM_REQUIRE(names.insert(name).second, "attribute \"", printable(name), "\" is given twice");
    EMBLEM_REQUIRE(name.find(',') == std::string::npos, "attribute \"", printable(name),
                   "\" has a comma, which divides the names of a request; rename the column");
  }
}

// Adds the items of batches.
class ItemCollector {
 public:
  ItemCollector(const std::string& input, const ItemColumns& columns, EncodedItems& items)
      : input_(input), columns_(columns), items_(items) {}

  void add(const Batch& batch, const std::vector<float>& vectors) {
    if (batch.rows > 0) items_.dim = std::ssize(vectors) / batch.rows;
    const auto dim = static_cast<size_t>(items_.dim);
    for (size_t row = 0; row < static_cast<size_t>(batch.rows); ++row, ++row_) {
      if (!batch.bad.empty() && batch.bad[row] != 0) continue;
      add_columns(split_csv_line(batch.kept[row], ','));
      add_vector(std::span(vectors).subspan(row * dim, dim));
    }
  }

 private:
  void add_columns(const std::vector<std::string>& fields) {
    const std::string where = cat(input_, ", row ", row_ + 1);
    const size_t kept = 1 + columns_.attributes.size() + columns_.stored.size();
    EMBLEM_REQUIRE(fields.size() == kept, where, " has ", fields.size(), " of the ", kept,
                   " columns of ids, attributes and texts");
    const int64_t id = parse_item_id(fields[0], columns_.id, where);
    EMBLEM_REQUIRE(ids_.insert(id).second, where, ": duplicate item ", id, "; ids must be unique");
    items_.ids.push_back(id);
    items_.stored.insert(items_.stored.end(), fields.end() - std::ssize(columns_.stored),
                         fields.end());
    if (columns_.attributes.empty()) return;
    uint64_t bits = 0;
    for (size_t i = 0; i < columns_.attributes.size(); ++i)
      if (attribute_of(fields[i + 1], columns_.attributes[i], where)) bits |= uint64_t{1} << i;
    items_.attributes.push_back(bits);
  }

  void add_vector(std::span<const float> vector) {
    const bool is_finite =
        std::all_of(vector.begin(), vector.end(), [](float value) { return std::isfinite(value); });
    EMBLEM_REQUIRE(is_finite, input_, ", row ", row_ + 1, ": the vector of item ",
                   items_.ids.back(),
                   " has NaN or infinite elements: training has diverged; use "
                   "an earlier checkpoint");
    items_.vectors.insert(items_.vectors.end(), vector.begin(), vector.end());
  }

  const std::string& input_;
  const ItemColumns& columns_;
  EncodedItems& items_;
  std::unordered_set<int64_t> ids_;
  int64_t row_ = 0;
};

}  // namespace

int64_t parse_item_id(const std::string& text, const std::string& column,
                      const std::string& where) {
  int64_t id = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), id);
  EMBLEM_REQUIRE(problem == std::errc() && end == text.data() + text.size(), where, ": column \"",
                 printable(column), "\" is \"", printable(text),
                 "\", expected the id of an item, a whole number of 64 bits");
  return id;
}

EncodedItems encode_items(RestoredModel& model, const std::string& items,
                          const ItemColumns& columns, const std::vector<std::string>& filters,
                          const PassWatch& watch) {
  require_towers(model.config().model_config(), "an index");
  check_columns(columns);
  std::vector<std::string> keep = {columns.id};
  keep.insert(keep.end(), columns.attributes.begin(), columns.attributes.end());
  keep.insert(keep.end(), columns.stored.begin(), columns.stored.end());
  EncodedItems encoded;
  ItemCollector collector(items, columns, encoded);
  encoded.pass = model.predict_batches(
      items, {kItemVectors}, keep, filters, watch,
      [&](const Batch& batch, const auto& values) { collector.add(batch, values.at(0)); });
  const int64_t most_bad = model.config().data_config().max_bad_rows();
  if (encoded.pass.bad_rows > most_bad)
    throw Error(ErrorCode::kCorruption,
                cat(encoded.pass.bad_rows, " rows of ", items,
                    " cannot be read, data_config.max_bad_rows allows ", most_bad));
  EMBLEM_REQUIRE(!encoded.ids.empty(), items, " has no items",
                 filters.empty() ? "" : " that fulfil the filters");
  return encoded;
}

FaissFolder read_faiss_items(const std::string& path, const MatchingSpec& model) {
  FaissFolder folder = read_faiss_folder(path);
  EMBLEM_REQUIRE(!folder.ids.empty(), path, " has no items");
  EMBLEM_REQUIRE(model.vector_dim() == 0 || model.vector_dim() == folder.dim, path,
                 " has vectors of ", folder.dim, " elements, but the towers of the model give ",
                 model.vector_dim(), "; use vectors of this model's item tower");
  return folder;
}

}  // namespace emblem
