#include "data/items/text_rows.h"

#include <algorithm>
#include <numeric>

#include "core/text/text.h"
#include "data/feature/transform.h"
#include "data/format/text/csv_types.h"
#include "emblem/error.h"

namespace emblem {
namespace {

config::DataConfig as_csv(config::DataConfig data) {
  data.set_dataset_type(config::CsvDataset);
  return data;
}

void make_room(int64_t rows, Column& column) {
  const auto count = static_cast<size_t>(rows);
  if (column.type == ColumnType::kFloat) column.floats.resize(count);
  if (column.type != ColumnType::kInt64) return;
  column.ints.resize(count);
  column.missing.resize(count);
}

}  // namespace

TextRows::TextRows(const config::DataConfig& data, const FeatureLayout& layout,
                   const std::vector<std::string>& columns, std::string file)
    : data_(as_csv(data)),
      layout_(layout),
      file_(std::move(file)),
      requests_(columns_needed(data_, layout, LabelCheck::kIgnore)),
      missing_({}) {
  piece_.block.columns.resize(requests_.size());
  for (size_t i = 0; i < requests_.size(); ++i) {
    ColumnRequest& request = requests_[i];
    request.codes = false;
    Column& column = piece_.block.columns[i];
    column.clear(request.type);
    if (request.has_bags()) column.offsets.push_back(0);
    const auto place = std::ranges::find(columns, request.name);
    EMBLEM_REQUIRE(place != columns.end(), file_, " is read for a feature that reads column \"",
                   printable(request.name),
                   "\", too, which has no values there; use a feature of \"",
                   printable(columns.front()), "\" alone");
    places_.push_back(static_cast<size_t>(place - columns.begin()));
  }
}

std::string TextRows::add(const std::vector<std::string_view>& texts) {
  const int64_t row = piece_.block.rows++;
  for (size_t i = 0; i < requests_.size(); ++i) {
    Column& column = piece_.block.columns[i];
    if (!requests_[i].has_bags()) make_room(row + 1, column);
    const CsvFieldParser parser(requests_[i], missing_, column);
    const std::string problem = parser.add(texts[places_[i]], row);
    if (!problem.empty()) return cat(requests_[i].name, ": ", problem);
  }
  return "";
}

Batch TextRows::features() {
  std::vector<ColumnSpec> specs;
  for (size_t i = 0; i < requests_.size(); ++i) {
    drop_plain_offsets(piece_.block.columns[i]);
    drop_missing_if_none(piece_.block.columns[i]);
    specs.push_back({requests_[i].name, requests_[i].type});
  }
  piece_.positions.resize(static_cast<size_t>(rows()));
  std::iota(piece_.positions.begin(), piece_.positions.end(), int64_t{0});
  const FeatureTransform transform(data_, layout_, LabelCheck::kIgnore, requests_, specs);
  Batch batch;
  transform.apply(piece_, batch);
  if (piece_.bad.count > 0)
    throw Error(ErrorCode::kCorruption,
                cat(file_, ", row ", piece_.bad.position + 1, ": ", piece_.bad.what));
  return batch;
}

}  // namespace emblem
