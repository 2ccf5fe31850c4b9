// Parquet, ORC and Arrow IPC. Blocks become record batches on any thread; a file collects them
// until it has the rows of a row group.
#include "data/format/encoder.h"
#include "data/source/arrow_absence.h"
#include "emblem/error.h"

#ifdef EMBLEM_WITH_ARROW
#include <arrow/adapters/orc/adapter.h>
#include <arrow/io/file.h>
#include <arrow/ipc/writer.h>
#include <arrow/table.h>
#include <arrow/util/compression.h>
#include <arrow/util/io_util.h>
#include <parquet/arrow/writer.h>
#include <parquet/properties.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "data/format/arrow_arrays.h"
#include "data/format/arrow_input.h"
#include "data/format/decoder.h"

namespace emblem {
namespace {

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

  // As core/file.h says it of other files. ORC's writer passes on the text of an error only.
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
