// Messages that are Arrow IPC streams: a schema and record batches.
#include "data/format/binary/message_decoder.h"
#include "data/source/objects/arrow_absence.h"

#ifdef EMBLEM_WITH_ARROW
#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>

#include <mutex>

#include "data/format/columnar/arrow_input.h"
#include "data/format/columnar/arrow_table.h"
#include "data/format/columnar/declared_type.h"
#include "data/format/memory/table_file.h"

namespace emblem {
namespace {

constexpr const char* kPlace = "the message";

// All rows of a message, as one batch.
std::shared_ptr<arrow::RecordBatch> batch_of(std::string_view message) {
  const auto buffer = std::make_shared<arrow::Buffer>(
      reinterpret_cast<const uint8_t*>(message.data()), static_cast<int64_t>(message.size()));
  arrow::ipc::IpcReadOptions options;
  options.use_threads = false;
  const auto reader = value_of(arrow::ipc::RecordBatchStreamReader::Open(
                                   std::make_shared<arrow::io::BufferReader>(buffer), options),
                               kPlace);
  const auto batches = value_of(reader->ToRecordBatches(), kPlace);
  if (batches.size() == 1) return batches[0];
  const auto table = value_of(arrow::Table::FromRecordBatches(reader->schema(), batches), kPlace);
  return value_of(table->CombineChunksToBatch(), kPlace);
}

class ArrowMessages final : public MessageDecoder {
 public:
  ArrowMessages(std::vector<ColumnRequest> requests, std::vector<std::string> na_strings,
                const std::vector<std::string>& filters)
      : requests_(std::move(requests)) {
    row_filters(filters);  // that they are conditions is said at once
    source_.na_strings = std::move(na_strings);
    source_.filters = filters;
  }

  const std::vector<ColumnSpec>* columns() const override { return nullptr; }
  size_t most_messages() const override { return 1; }

  const std::vector<ColumnSpec>* decode(const MessageChunk& chunk, const RowSample& sample,
                                        DecodedPiece& out) const override {
    out.file = chunk.partition;
    out.bytes = static_cast<int64_t>(chunk.bytes.size());
    out.bad = {};
    out.bad_positions.clear();
    out.kept.clear();
    out.positions.clear();
    out.block.rows = 0;
    if (chunk.bytes.empty()) return nullptr;
    try {
      return read(chunk, sample, out);
    } catch (const Error& error) {
      const int64_t position = row_position(chunk.offsets[0], 0);
      out.positions.clear();
      out.block.rows = 0;
      out.bad = {};
      out.bad.add(position, error.what());
      out.bad_positions.assign(1, position);
      return nullptr;
    }
  }

 private:
  struct Schema {
    std::shared_ptr<arrow::Schema> schema;
    std::shared_ptr<const ColumnSelection> selection;
  };

  const std::vector<ColumnSpec>* read(const MessageChunk& chunk, const RowSample& sample,
                                      DecodedPiece& out) const {
    const auto batch = batch_of(chunk.message(0));
    EMBLEM_REQUIRE(batch->num_rows() <= kMostRowsOfMessage, kPlace, " has ", batch->num_rows(),
                   " rows, expected at most ", kMostRowsOfMessage);
    const auto table = table_of(*batch, kPlace);
    const auto selection = selection_of(batch->schema(), *table);
    std::vector<std::unique_ptr<ColumnarFile>> files;
    files.push_back(open_table(table, kPlace));
    const int64_t first = row_position(chunk.offsets[0], 0);
    const ColumnarDecoder decoder(selection, std::move(files), {chunk.partition, first});
    const Extent rows = decoder.extent(0);
    if (rows.begin + chunk.first_row >= rows.end) return nullptr;
    decoder.decode(0, {rows.begin + chunk.first_row, rows.end}, sample, nullptr, out);
    out.cursor.reset();
    return &selection->columns;
  }

  // Messages of one producer have one schema, and a new one now and then.
  std::shared_ptr<const ColumnSelection> selection_of(const std::shared_ptr<arrow::Schema>& schema,
                                                      const ColumnTable& table) const {
    const std::lock_guard lock(mutex_);
    for (const Schema& known : schemas_)
      if (known.schema->Equals(*schema, false)) return known.selection;
    std::vector<ColumnarField> fields;
    for (const ArrayField& field : array_fields(table.schema())) fields.push_back(field.field);
    schemas_.push_back(
        {schema, std::make_shared<ColumnSelection>(source_, &requests_, fields, kPlace)});
    warn_of_declared_types(requests_, schemas_.back().selection->columns, kPlace);
    return schemas_.back().selection;
  }

  const std::vector<ColumnRequest> requests_;
  DataSource source_;
  mutable std::mutex mutex_;
  mutable std::vector<Schema> schemas_;
};

}  // namespace

std::unique_ptr<MessageDecoder> make_arrow_messages(std::vector<ColumnRequest> requests,
                                                    std::vector<std::string> na_strings,
                                                    const std::vector<std::string>& filters) {
  return std::make_unique<ArrowMessages>(std::move(requests), std::move(na_strings), filters);
}

}  // namespace emblem

#else

namespace emblem {

std::unique_ptr<MessageDecoder> make_arrow_messages(std::vector<ColumnRequest>,
                                                    std::vector<std::string>,
                                                    const std::vector<std::string>&) {
  throw Error(ErrorCode::kUnsupported, cat("data_config.stream_format ARROW_BATCH: ",
                                           arrow_absence(), "; or use JSON_ROWS or CSV_ROWS"));
}

}  // namespace emblem

#endif
