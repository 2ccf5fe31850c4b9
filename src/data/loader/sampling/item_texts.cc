#include "data/loader/sampling/item_texts.h"

#include <algorithm>
#include <numeric>

#include "core/text/text.h"
#include "data/feature/transform.h"
#include "data/format/text/csv_field.h"
#include "data/format/text/csv_types.h"
#include "emblem/error.h"

namespace emblem {
namespace {

config::DataConfig as_csv(config::DataConfig data) {
  data.set_dataset_type(config::CsvDataset);
  return data;
}

}  // namespace

struct ItemTexts::Columns {
  Columns(const config::DataConfig& as_stored, FeatureLayout of_items, const ItemSamplerSpec& of)
      : data(as_csv(as_stored)),
        layout(std::move(of_items)),
        path(of.input_path),
        requests(columns_needed(data, layout, LabelCheck::kIgnore)) {
    piece.block.columns.resize(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].codes = false;
      Column& column = piece.block.columns[i];
      column.clear(requests[i].type);
      if (requests[i].has_bags()) column.offsets.push_back(0);
      fields.push_back(static_cast<size_t>(std::ranges::find(of.attr_fields, requests[i].name) -
                                           of.attr_fields.begin()));
    }
  }

  void make_room(Column& column) const {
    const auto rows = static_cast<size_t>(piece.block.rows);
    if (column.type == ColumnType::kFloat) column.floats.resize(rows);
    if (column.type != ColumnType::kInt64) return;
    column.ints.resize(rows);
    column.missing.resize(rows);
  }

  config::DataConfig data;
  FeatureLayout layout;
  std::string path;
  std::vector<ColumnRequest> requests;
  MissingTexts missing{{}};
  DecodedPiece piece;
  std::vector<size_t> fields;  // of each request: its position in the attributes
};

ItemTexts::ItemTexts(const config::DataConfig& data, const FeatureLayout& layout,
                     const ItemSamplerSpec& sampler)
    : columns_(std::make_unique<Columns>(data, layout, sampler)) {}

ItemTexts::~ItemTexts() = default;

std::string ItemTexts::add(const std::vector<std::string_view>& attributes) {
  Columns& to = *columns_;
  const int64_t item = to.piece.block.rows++;
  for (size_t i = 0; i < to.requests.size(); ++i) {
    Column& column = to.piece.block.columns[i];
    if (!to.requests[i].has_bags()) to.make_room(column);
    const CsvFieldParser parser(to.requests[i], to.missing, column);
    const std::string problem = parser.add(attributes[to.fields[i]], item);
    if (!problem.empty()) return cat(to.requests[i].name, ": ", problem);
  }
  return "";
}

Batch ItemTexts::features() {
  Columns& from = *columns_;
  std::vector<ColumnSpec> specs;
  for (size_t i = 0; i < from.requests.size(); ++i) {
    drop_plain_offsets(from.piece.block.columns[i]);
    drop_missing_if_none(from.piece.block.columns[i]);
    specs.push_back({from.requests[i].name, from.requests[i].type});
  }
  from.piece.positions.resize(static_cast<size_t>(from.piece.block.rows));
  std::iota(from.piece.positions.begin(), from.piece.positions.end(), int64_t{0});
  const FeatureTransform transform(from.data, from.layout, LabelCheck::kIgnore, from.requests,
                                   specs);
  Batch features;
  transform.apply(from.piece, features);
  if (from.piece.bad.count > 0)
    throw Error(ErrorCode::kCorruption,
                cat(from.path, ", item ", from.piece.bad.position + 1, ": ", from.piece.bad.what));
  return features;
}

}  // namespace emblem
