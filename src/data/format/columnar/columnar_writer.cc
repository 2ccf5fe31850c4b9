// Parquet, ORC and Arrow IPC. Blocks become record batches on any thread; a file collects them
// until it has the rows of a row group.
#include "data/format/encoder.h"
#include "data/source/objects/arrow_absence.h"
#include "emblem/error.h"

#ifdef EMBLEM_WITH_ARROW
#include <arrow/adapters/orc/adapter.h>
#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/io/file.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <arrow/util/compression.h>
#include <arrow/util/io_util.h>
#include <parquet/arrow/writer.h>
#include <parquet/properties.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <numeric>

#include "data/format/columnar/arrow_input.h"
#include "data/format/decoder.h"
#include "data/format/text/text_scan.h"

namespace emblem {
namespace {

// ---- columns as Arrow arrays ----

// "timestamp[us]", "timestamp[us, tz=UTC]".
std::shared_ptr<arrow::DataType> timestamp_of(std::string_view name) {
  constexpr std::string_view kStart = "timestamp[", kZone = ", tz=";
  name.remove_prefix(kStart.size());
  name.remove_suffix(1);
  const size_t comma = name.find(kZone);
  const std::string_view unit = name.substr(0, comma);
  const std::string zone(comma == name.npos ? "" : name.substr(comma + kZone.size()));
  for (const auto known : {arrow::TimeUnit::SECOND, arrow::TimeUnit::MILLI, arrow::TimeUnit::MICRO})
    if (arrow::timestamp(known)->ToString() == cat(kStart, unit, "]"))
      return arrow::timestamp(known, zone);
  return arrow::timestamp(arrow::TimeUnit::NANO, zone);
}

// The type of kInt64, by ColumnSpec::stored.
std::shared_ptr<arrow::DataType> integer_type(const std::string& stored) {
  if (stored.starts_with("timestamp[")) return timestamp_of(stored);
  using Unit = arrow::TimeUnit;
  for (const auto& type :
       {arrow::uint64(), arrow::boolean(), arrow::date32(), arrow::date64(),
        arrow::time32(Unit::SECOND), arrow::time32(Unit::MILLI), arrow::time64(Unit::MICRO),
        arrow::time64(Unit::NANO), arrow::duration(Unit::SECOND), arrow::duration(Unit::MILLI),
        arrow::duration(Unit::MICRO), arrow::duration(Unit::NANO)})
    if (type->ToString() == stored) return type;
  return arrow::int64();
}

std::shared_ptr<arrow::DataType> leaf_type(const ColumnSpec& column) {
  switch (column.type) {
    case ColumnType::kFloat:
      return arrow::float32();
    case ColumnType::kInt64:
      return integer_type(column.stored);
    case ColumnType::kText:
      break;
  }
  if (column.stored == "double") return arrow::float64();
  return column.stored == "binary" ? arrow::binary() : arrow::utf8();
}

std::shared_ptr<arrow::DataType> arrow_type_of(const ColumnSpec& column) {
  std::shared_ptr<arrow::DataType> type = leaf_type(column);
  if (column.weighted)
    type = arrow::struct_({arrow::field("key", type), arrow::field("weight", arrow::float32())});
  for (int i = 0; i < column.lists; ++i) type = arrow::list(type);
  return type;
}

template <class Builder>
std::shared_ptr<arrow::Array> finish(Builder& builder, const std::string& name) {
  return value_of(builder.Finish(), name);
}

std::shared_ptr<arrow::Array> float_array(const HostVector<float>& values,
                                          const std::string& name) {
  std::vector<uint8_t> valid(values.size());
  for (size_t i = 0; i < values.size(); ++i) valid[i] = !std::isnan(values[i]);
  arrow::FloatBuilder builder;
  require_ok(builder.AppendValues(values.data(), static_cast<int64_t>(values.size()), valid.data()),
             name);
  return finish(builder, name);
}

template <class Builder, class Value>
std::shared_ptr<arrow::Array> int_array(Builder& builder, const Value* values, const Column& column,
                                        const std::string& name) {
  std::vector<uint8_t> valid(column.missing.size());
  for (size_t i = 0; i < valid.size(); ++i) valid[i] = column.missing[i] == 0;
  require_ok(builder.AppendValues(values, static_cast<int64_t>(column.ints.size()),
                                  valid.empty() ? nullptr : valid.data()),
             name);
  return finish(builder, name);
}

// Values of the builder's type, which has a unit.
template <class Builder>
std::shared_ptr<arrow::Array> unit_array(const std::shared_ptr<arrow::DataType>& type,
                                         const Column& column, const std::string& name) {
  Builder builder(type, arrow::default_memory_pool());
  const std::vector<typename Builder::value_type> values(column.ints.begin(), column.ints.end());
  return int_array(builder, values.data(), column, name);
}

std::shared_ptr<arrow::Array> int_array(const ColumnSpec& spec, const Column& column) {
  const std::shared_ptr<arrow::DataType> type = leaf_type(spec);
  const int64_t* const values = column.ints.data();
  switch (type->id()) {
    case arrow::Type::UINT64: {
      arrow::UInt64Builder builder;
      return int_array(builder, reinterpret_cast<const uint64_t*>(values), column, spec.name);
    }
    case arrow::Type::BOOL: {
      const std::vector<uint8_t> bools(column.ints.begin(), column.ints.end());
      arrow::BooleanBuilder builder;
      return int_array(builder, bools.data(), column, spec.name);
    }
    case arrow::Type::DATE32:
      return unit_array<arrow::Date32Builder>(type, column, spec.name);
    case arrow::Type::DATE64:
      return unit_array<arrow::Date64Builder>(type, column, spec.name);
    case arrow::Type::TIME32:
      return unit_array<arrow::Time32Builder>(type, column, spec.name);
    case arrow::Type::TIME64:
      return unit_array<arrow::Time64Builder>(type, column, spec.name);
    case arrow::Type::TIMESTAMP:
      return unit_array<arrow::TimestampBuilder>(type, column, spec.name);
    case arrow::Type::DURATION:
      return unit_array<arrow::DurationBuilder>(type, column, spec.name);
    default: {
      arrow::Int64Builder builder;
      return int_array(builder, values, column, spec.name);
    }
  }
}

// Calls append(text) or, for an empty one, append_null() for every value.
template <class Append, class AppendNull>
void each_text(const Column& column, Append append, AppendNull append_null) {
  size_t begin = 0;
  for (const uint32_t end : column.text_ends) {
    if (begin == end) {
      append_null();
    } else {
      append(std::string_view(column.text).substr(begin, end - begin));
    }
    begin = end;
  }
}

template <class Builder>
std::shared_ptr<arrow::Array> text_array(const Column& column, const std::string& name) {
  Builder builder;
  require_ok(builder.Reserve(static_cast<int64_t>(column.text_ends.size())), name);
  require_ok(builder.ReserveData(static_cast<int64_t>(column.text.size())), name);
  each_text(
      column, [&](std::string_view text) { builder.UnsafeAppend(text); },
      [&] { builder.UnsafeAppendNull(); });
  return finish(builder, name);
}

// Numbers that the column has as text.
std::shared_ptr<arrow::Array> double_array(const Column& column, const std::string& name) {
  arrow::DoubleBuilder builder;
  require_ok(builder.Reserve(static_cast<int64_t>(column.text_ends.size())), name);
  each_text(
      column,
      [&](std::string_view text) {
        double value = 0;
        EMBLEM_REQUIRE(parse_double(text, value), "column ", in_quotes(name), ": ", in_quotes(text),
                       " is not a number");
        if (std::isnan(value)) return builder.UnsafeAppendNull();
        builder.UnsafeAppend(value);
      },
      [&] { builder.UnsafeAppendNull(); });
  return finish(builder, name);
}

std::shared_ptr<arrow::Array> leaf_array(const ColumnSpec& spec, const Column& column) {
  switch (column.type) {
    case ColumnType::kFloat:
      return float_array(column.floats, spec.name);
    case ColumnType::kInt64:
      return int_array(spec, column);
    case ColumnType::kText:
      break;
  }
  if (spec.stored == "double") return double_array(column, spec.name);
  return spec.stored == "binary" ? text_array<arrow::BinaryBuilder>(column, spec.name)
                                 : text_array<arrow::StringBuilder>(column, spec.name);
}

// Offsets of lists; each has one entry where there are none.
std::shared_ptr<arrow::Array> list_array(const HostVector<int32_t>& offsets, int64_t lists,
                                         const std::shared_ptr<arrow::Array>& values,
                                         const std::string& name) {
  std::vector<int32_t> own(offsets.begin(), offsets.end());
  if (own.empty()) {
    own.resize(static_cast<size_t>(lists + 1));
    std::iota(own.begin(), own.end(), 0);
  }
  arrow::Int32Builder builder;
  require_ok(builder.AppendValues(own), name);
  const auto array = finish(builder, name);
  return value_of(arrow::ListArray::FromArrays(*array, *values), name);
}

std::shared_ptr<arrow::Array> array_of(const ColumnSpec& spec, const Column& column, int64_t rows) {
  EMBLEM_REQUIRE(column.type == spec.type, "column ", in_quotes(spec.name),
                 " changes its type between blocks");
  EMBLEM_REQUIRE(spec.lists > 0 || (column.offsets.empty() && column.sequence_offsets.empty()),
                 "column ", in_quotes(spec.name),
                 " has several values per row but is declared with one");
  EMBLEM_REQUIRE(spec.weighted || column.weights.empty(), "column ", in_quotes(spec.name),
                 " holds weighted values, which are written as lists only");
  std::shared_ptr<arrow::Array> array = leaf_array(spec, column);
  if (spec.weighted) {
    HostVector<float> weights = column.weights;
    if (weights.empty()) weights.assign(static_cast<size_t>(array->length()), 1.0f);
    array = value_of(arrow::StructArray::Make({array, float_array(weights, spec.name)},
                                              std::vector<std::string>{"key", "weight"}),
                     spec.name);
  }
  const bool is_sequence = !column.sequence_offsets.empty();
  if (spec.lists == 2) {
    const int64_t bags = is_sequence ? column.sequence_offsets.back() : rows;
    array = list_array(column.offsets, bags, array, spec.name);
    return list_array(column.sequence_offsets, rows, array, spec.name);
  }
  if (spec.lists == 0) return array;
  EMBLEM_REQUIRE(!is_sequence || column.offsets.empty(), "column ", in_quotes(spec.name),
                 " has sequences of bags but is declared with bags");
  return list_array(is_sequence ? column.sequence_offsets : column.offsets, rows, array, spec.name);
}

// Numbers are floats, ids int64, text strings; bags and sequences are lists, weighted bags lists of
// structs (key, weight). Missing values are nulls.
std::shared_ptr<arrow::Schema> arrow_schema(const std::vector<ColumnSpec>& columns) {
  std::vector<std::shared_ptr<arrow::Field>> fields;
  for (const ColumnSpec& column : columns)
    fields.push_back(arrow::field(column.name, arrow_type_of(column)));
  return arrow::schema(fields);
}

// Throws Error that names the column when a block is not what `columns` say.
std::shared_ptr<arrow::RecordBatch> arrow_batch(const std::vector<ColumnSpec>& columns,
                                                const std::shared_ptr<arrow::Schema>& schema,
                                                const Block& block) {
  std::vector<std::shared_ptr<arrow::Array>> arrays;
  for (size_t i = 0; i < columns.size(); ++i)
    arrays.push_back(array_of(columns[i], block.columns[i], block.rows));
  return arrow::RecordBatch::Make(schema, block.rows, arrays);
}

// ---- files ----

using Table = std::shared_ptr<arrow::Table>;

// Writes row groups of one size; a format says how.
class ColumnarSink : public RowSink {
 public:
  ColumnarSink(const std::string& path, std::shared_ptr<arrow::Schema> schema,
               const ColumnarOptions& options)
      : path_(path),
        schema_(std::move(schema)),
        options_(options),
        stream_(value_of(arrow::io::FileOutputStream::Open(path), path)) {}

  void write(const EncodedRows& rows) override {
    batches_.push_back(
        std::static_pointer_cast<arrow::RecordBatch>(std::const_pointer_cast<void>(rows.batch)));
    waiting_ += rows.rows;
    while (waiting_ >= options_.row_group_rows) write_rows(options_.row_group_rows);
  }

  int64_t bytes_written() const override {
    return stream_->closed() ? bytes_ : value_of(stream_->Tell(), path_);
  }

  void finish() override {
    if (waiting_ > 0) write_rows(waiting_);
    require_written(close());
    bytes_ = value_of(stream_->Tell(), path_);
    require_written(stream_->Close());
  }

 protected:
  virtual arrow::Status write_group(const arrow::Table& table) = 0;
  virtual arrow::Status close() = 0;

  // As core/files/file.h says it of other files. ORC's writer passes on the text of an error only.
  void require_written(const arrow::Status& status) const {
    if (status.ok()) return;
    const int error = arrow::internal::ErrnoFromStatus(status);
    const bool is_full = error == ENOSPC || error == EDQUOT ||
                         status.message().find(std::strerror(ENOSPC)) != std::string::npos;
    if (error == 0 && !is_full) require_ok(status, path_);
    throw Error(ErrorCode::kUnavailable,
                cat("cannot write ", path_, ": ", std::strerror(error == 0 ? ENOSPC : error),
                    is_full ? "; free some space and run again" : ""));
  }

  template <class T>
  T written(arrow::Result<T> result) const {
    require_written(result.status());
    return std::move(result).ValueUnsafe();
  }

  std::string path_;
  std::shared_ptr<arrow::Schema> schema_;
  ColumnarOptions options_;
  std::shared_ptr<arrow::io::FileOutputStream> stream_;

 private:
  void write_rows(int64_t rows) {
    const Table table = value_of(arrow::Table::FromRecordBatches(schema_, batches_), path_);
    require_written(write_group(*table->Slice(0, rows)));
    batches_.clear();
    waiting_ -= rows;
    if (waiting_ == 0) return;
    arrow::TableBatchReader rest(table->Slice(rows));
    while (const auto batch = value_of(rest.Next(), path_)) batches_.push_back(batch);
  }

  std::vector<std::shared_ptr<arrow::RecordBatch>> batches_;
  int64_t waiting_ = 0, bytes_ = 0;
};

arrow::Compression::type compression_of(const std::string& name, const char* otherwise) {
  const std::string chosen = name.empty() ? otherwise : name;
  if (chosen == "none") return arrow::Compression::UNCOMPRESSED;
  const auto type = arrow::util::Codec::GetCompressionType(chosen);
  EMBLEM_REQUIRE(type.ok() && arrow::util::Codec::IsAvailable(*type), "compression is '", chosen,
                 "'; expected none, snappy, zstd, gzip, lz4 or brotli");
  return *type;
}

// Blocks of LZ4, as Parquet and ORC have them, in place of its frames.
arrow::Compression::type block_compression_of(const std::string& name, const char* otherwise) {
  const auto type = compression_of(name, otherwise);
  return type == arrow::Compression::LZ4_FRAME ? arrow::Compression::LZ4 : type;
}

class ParquetSink final : public ColumnarSink {
 public:
  static constexpr bool kHasAllTypes = true;

  ParquetSink(const std::string& path, const std::shared_ptr<arrow::Schema>& schema,
              const ColumnarOptions& options)
      : ColumnarSink(path, schema, options) {
    parquet::WriterProperties::Builder properties;
    properties.compression(block_compression_of(options.compression, "snappy"))
        ->data_page_version(parquet::ParquetDataPageVersion::V2)
        ->enable_page_checksum()
        ->max_row_group_length(options.row_group_rows)
        ->created_by("emblem");
    if (!options.dictionaries) properties.disable_dictionary();
    writer_ = written(parquet::arrow::FileWriter::Open(*schema, arrow::default_memory_pool(),
                                                       stream_, properties.build()));
  }

 protected:
  arrow::Status write_group(const arrow::Table& table) override {
    return writer_->WriteTable(table, options_.row_group_rows);
  }
  arrow::Status close() override { return writer_->Close(); }

 private:
  std::unique_ptr<parquet::arrow::FileWriter> writer_;
};

class OrcSink final : public ColumnarSink {
 public:
  static constexpr bool kHasAllTypes = false;

  OrcSink(const std::string& path, const std::shared_ptr<arrow::Schema>& schema,
          const ColumnarOptions& options)
      : ColumnarSink(path, schema, options) {
    arrow::adapters::orc::WriteOptions properties;
    properties.compression = block_compression_of(options.compression, "zstd");
    // Stripes are measured in bytes: about as many as the rows of a row group have.
    properties.stripe_size = std::max<int64_t>(1 << 20, options.row_group_rows * 256);
    writer_ = written(arrow::adapters::orc::ORCFileWriter::Open(stream_.get(), properties));
  }

 protected:
  arrow::Status write_group(const arrow::Table& table) override {
    is_empty_ = false;
    return writer_->Write(table);
  }
  arrow::Status close() override {
    if (is_empty_)
      ARROW_RETURN_NOT_OK(write_group(*value_of(arrow::Table::MakeEmpty(schema_), path_)));
    return writer_->Close();
  }

 private:
  std::unique_ptr<arrow::adapters::orc::ORCFileWriter> writer_;
  bool is_empty_ = true;
};

class IpcSink final : public ColumnarSink {
 public:
  static constexpr bool kHasAllTypes = true;

  IpcSink(const std::string& path, const std::shared_ptr<arrow::Schema>& schema,
          const ColumnarOptions& options)
      : ColumnarSink(path, schema, options) {
    auto properties = arrow::ipc::IpcWriteOptions::Defaults();
    const auto type = compression_of(options.compression, "none");
    const bool is_known = type == arrow::Compression::UNCOMPRESSED ||
                          type == arrow::Compression::LZ4_FRAME || type == arrow::Compression::ZSTD;
    EMBLEM_REQUIRE(is_known, "compression is '", options.compression,
                   "'; Arrow IPC files have none, lz4 or zstd");
    if (type != arrow::Compression::UNCOMPRESSED)
      properties.codec = value_of(arrow::util::Codec::Create(type), path);
    writer_ = written(arrow::ipc::MakeFileWriter(stream_, schema, properties));
  }

 protected:
  arrow::Status write_group(const arrow::Table& table) override {
    return writer_->WriteRecordBatch(*value_of(table.CombineChunksToBatch(), path_));
  }
  arrow::Status close() override { return writer_->Close(); }

 private:
  std::shared_ptr<arrow::ipc::RecordBatchWriter> writer_;
};

template <class Sink>
class ColumnarEncoder final : public RowEncoder {
 public:
  ColumnarEncoder(const std::vector<ColumnSpec>& schema, const WriterOptions& options,
                  const char* ending)
      : RowEncoder(schema.size()),
        columns_(with_known_types(schema)),
        schema_(arrow_schema(columns_)),
        options_(options.columnar),
        ending_(ending) {
    EMBLEM_REQUIRE(!schema.empty(), "there are no columns to write");
    EMBLEM_REQUIRE(options_.row_group_rows > 0, "a row group has ", options_.row_group_rows,
                   " rows; expected 1 or more");
  }

  std::vector<std::string> file_names(int part) const override {
    return {part_name(part, ending_)};
  }

  void encode(const Block& block, int64_t, EncodedRows& out) const override {
    for (const size_t column : unsigned_as_signed_) require_signed(block.columns[column], column);
    out.batch = arrow_batch(columns_, schema_, block);
  }

  std::unique_ptr<RowSink> open(const std::string& path, size_t) const override {
    return std::make_unique<Sink>(path, schema_, options_);
  }

 private:
  // ORC has no unsigned integers, which become signed ones, and no times of a day or durations,
  // which become integers.
  std::vector<ColumnSpec> with_known_types(std::vector<ColumnSpec> schema) {
    for (size_t i = 0; i < schema.size() && !Sink::kHasAllTypes; ++i) {
      std::string& stored = schema[i].stored;
      if (stored == "uint64") unsigned_as_signed_.push_back(i);
      const ValueKind kind = value_type_stored_as(stored).kind;
      if (stored == "uint64" || stored == "date64[ms]" || kind == ValueKind::kTime ||
          kind == ValueKind::kDuration)
        stored.clear();
    }
    return schema;
  }

  void require_signed(const Column& values, size_t column) const {
    const auto found = std::find_if(values.ints.begin(), values.ints.end(),
                                    [](int64_t value) { return value < 0; });
    EMBLEM_REQUIRE(found == values.ints.end(), "column ", in_quotes(columns_[column].name),
                   ": the unsigned integer ", static_cast<uint64_t>(*found),
                   " is too large for ORC, whose integers are signed; write parquet or arrow");
  }

  std::vector<size_t> unsigned_as_signed_;
  std::vector<ColumnSpec> columns_;
  std::shared_ptr<arrow::Schema> schema_;
  ColumnarOptions options_;
  const char* ending_;
};

}  // namespace

std::unique_ptr<RowEncoder> make_parquet_encoder(const std::vector<ColumnSpec>& schema,
                                                 const WriterOptions& options) {
  return std::make_unique<ColumnarEncoder<ParquetSink>>(schema, options, ".parquet");
}

std::unique_ptr<RowEncoder> make_orc_encoder(const std::vector<ColumnSpec>& schema,
                                             const WriterOptions& options) {
  return std::make_unique<ColumnarEncoder<OrcSink>>(schema, options, ".orc");
}

std::unique_ptr<RowEncoder> make_arrow_encoder(const std::vector<ColumnSpec>& schema,
                                               const WriterOptions& options) {
  return std::make_unique<ColumnarEncoder<IpcSink>>(schema, options, ".arrow");
}

}  // namespace emblem
#else
namespace emblem {
namespace {

[[noreturn]] void refuse(const char* format) {
  throw Error(ErrorCode::kUnsupported, cat(format, " files cannot be written: ", arrow_absence()));
}

}  // namespace

std::unique_ptr<RowEncoder> make_parquet_encoder(const std::vector<ColumnSpec>&,
                                                 const WriterOptions&) {
  refuse("Parquet");
}
std::unique_ptr<RowEncoder> make_orc_encoder(const std::vector<ColumnSpec>&, const WriterOptions&) {
  refuse("ORC");
}
std::unique_ptr<RowEncoder> make_arrow_encoder(const std::vector<ColumnSpec>&,
                                               const WriterOptions&) {
  refuse("Arrow");
}

}  // namespace emblem
#endif
