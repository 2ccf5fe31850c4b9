#include "train/predict/prediction_table.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/files/output_file.h"
#include "data/format/columnar/columnar_decoder.h"
#include "data/format/text/csv_field.h"
#include "data/format/text/csv_types.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<RowEncoder> make_encoder(const std::string& format,
                                         const std::vector<ColumnSpec>& schema) {
  if (format == "orc") return make_orc_encoder(schema, {});
  return format == "arrow" ? make_arrow_encoder(schema, {}) : make_parquet_encoder(schema, {});
}

// Reads the text that data/format/columnar/columnar_decoder.h makes of kept columns.
void read_kept(const ColumnSpec& spec, const std::vector<std::vector<std::string>>& fields,
               size_t at, Column& column) {
  const ColumnRequest request{.name = spec.name,
                              .type = spec.type,
                              .separators = spec.lists > 0 ? "\x1d" : "",
                              .sequence_delim = spec.lists > 1 ? ";" : "",
                              .weighted = spec.weighted,
                              .na_is_missing = spec.type != ColumnType::kText,
                              .trained = {spec.values.is_temporal() ? spec.values : ValueType()}};
  const MissingTexts missing({});
  column.clear(spec.type);
  const size_t fixed = request.has_bags() ? 0 : fields.size();
  if (spec.type == ColumnType::kFloat) column.floats.resize(fixed);
  if (spec.type == ColumnType::kInt64) column.ints.resize(fixed);
  if (spec.type == ColumnType::kInt64) column.missing.resize(fixed);
  if (spec.lists > 0) column.offsets.push_back(0);
  if (spec.lists > 1) column.sequence_offsets.push_back(0);
  const CsvFieldParser parser(request, missing, column);
  for (size_t row = 0; row < fields.size(); ++row) {
    const std::string_view text = at < fields[row].size() ? fields[row][at] : std::string_view();
    parser.add(text, static_cast<int64_t>(row));
  }
}

}  // namespace

std::string columnar_format_of(const std::string& path) {
  for (const std::string_view ending : {".parquet", ".orc", ".arrow"})
    if (path.ends_with(ending)) return std::string(ending.substr(1));
  return "";
}

std::vector<ColumnSpec> kept_columns_of(const DataSource& source,
                                        std::span<const std::string> keep) {
  std::vector<ColumnSpec> columns;
  for (const std::string& name : keep) columns.push_back({name, ColumnType::kText});
  if (!is_columnar(source.type) || keep.empty()) return columns;
  DataSource stored_source = source;
  stored_source.natural = NaturalTypes::kExact;
  const std::vector<ColumnSpec> schema = open_reader(stored_source)->schema();
  for (ColumnSpec& column : columns) {
    const int at = find_column(schema, column.name, source.input);
    column = schema[static_cast<size_t>(at)];
  }
  return columns;
}

PredictionTable::PredictionTable(const std::string& path, std::vector<ColumnSpec> kept,
                                 std::span<const std::string> predictions)
    : path_(path), schema_(std::move(kept)), kept_(schema_.size()) {
  for (const std::string& name : predictions) schema_.push_back({name, ColumnType::kFloat});
  encoder_ = make_encoder(columnar_format_of(path), schema_);
  temporary_ = unfinished_path(path);
  sink_ = encoder_->open(temporary_, 0);
}

PredictionTable::~PredictionTable() {
  sink_.reset();
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void PredictionTable::add(const Batch& batch, const std::vector<std::vector<float>>& predictions) {
  Block block;
  block.rows = batch.rows;
  block.columns.resize(schema_.size());
  if (kept_ > 0) {
    std::vector<std::vector<std::string>> fields;
    for (size_t row = 0; row < static_cast<size_t>(batch.rows); ++row)
      fields.push_back(split_csv_line(batch.kept[row], ','));
    for (size_t i = 0; i < kept_; ++i) read_kept(schema_[i], fields, i, block.columns[i]);
  }
  for (size_t i = kept_; i < schema_.size(); ++i) {
    const std::vector<float>& values = predictions[i - kept_];
    block.columns[i].clear(ColumnType::kFloat);
    block.columns[i].floats.assign(values.begin(), values.end());
    for (size_t row = 0; row < batch.bad.size(); ++row)
      if (batch.bad[row] != 0) block.columns[i].floats[row] = std::nanf("");
  }
  EncodedRows rows;
  rows.rows = block.rows;
  encoder_->encode(block, 0, rows);
  sink_->write(rows);
}

void PredictionTable::finish() {
  sink_->finish();
  fs::rename(temporary_, path_);
  temporary_.clear();
}

}  // namespace emblem
