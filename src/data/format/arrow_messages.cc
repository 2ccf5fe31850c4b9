// Messages that are Arrow IPC streams: a schema and record batches.
#include "data/format/message_decoder.h"
#include "data/source/arrow_absence.h"

#ifdef EMBLEM_WITH_ARROW
#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>

#include <mutex>

#include "data/format/arrow_block.h"
#include "data/format/arrow_input.h"
#include "data/format/row_filter.h"
#include "data/format/select_rows.h"

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
  for (const auto& batch : batches) require_ok(batch->ValidateFull(), kPlace);
  if (batches.size() == 1) return batches[0];
  const auto table = value_of(arrow::Table::FromRecordBatches(reader->schema(), batches), kPlace);
  return value_of(table->CombineChunksToBatch(), kPlace);
}

class ArrowMessages final : public MessageDecoder {
 public:
  ArrowMessages(std::vector<ColumnRequest> requests, std::vector<std::string> na_strings,
                const std::vector<std::string>& filters)
      : requests_(std::move(requests)),
        na_strings_(std::move(na_strings)),
        filters_(row_filters(filters)) {}

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
    ArrowBlocks blocks;
    std::vector<RowFilter> filters;
    std::vector<ArrowField> filtered;  // by filter

    // Whether each row of a batch fulfils all filters.
    std::vector<uint8_t> kept_rows(const arrow::RecordBatch& batch) const {
      std::vector<uint8_t> kept(static_cast<size_t>(batch.num_rows()), 1);
      for (size_t i = 0; i < filters.size(); ++i) {
        Column column;
        ArrowDictionary dictionary;
        std::vector<ValueProblem> problems;
        const ColumnRead how = ColumnFit(filtered[i].field, nullptr, {}, kPlace).read(0);
        read_arrow_column(batch, filtered[i], how, 0, batch.num_rows(), dictionary, kPlace, column,
                          problems);
        for (size_t row = 0; row < kept.size(); ++row)
          kept[row] &= filters[i].keeps(column, static_cast<int64_t>(row)) ? 1 : 0;
      }
      return kept;
    }
  };

  const std::vector<ColumnSpec>* read(const MessageChunk& chunk, const RowSample& sample,
                                      DecodedPiece& out) const {
    const auto batch = batch_of(chunk.message(0));
    EMBLEM_REQUIRE(batch->num_rows() <= kMostRowsOfMessage, kPlace, " has ", batch->num_rows(),
                   " rows, expected at most ", kMostRowsOfMessage);
    const Schema& schema = schema_of(batch->schema());
    const ArrowBlocks& blocks = schema.blocks;
    const std::vector<uint8_t> fulfils = schema.kept_rows(*batch);
    std::vector<RowProblem> problems;
    blocks.read(*batch, kPlace, out.block, problems);
    out.positions.resize(static_cast<size_t>(batch->num_rows()));
    std::vector<int32_t> kept;
    for (int64_t row = 0; row < batch->num_rows(); ++row) {
      const int64_t position = row_position(chunk.offsets[0], row);
      out.positions[static_cast<size_t>(row)] = position;
      if (row >= chunk.first_row && fulfils[static_cast<size_t>(row)] != 0 &&
          (sample.keeps_all() || sample.keeps(chunk.partition, position)))
        kept.push_back(static_cast<int32_t>(row));
    }
    const bool all = kept.size() == out.positions.size() && problems.empty();
    Column scratch;
    if (!all) take_rows(kept, problems, scratch, out);
    return &blocks.columns();
  }

  // Messages of one producer have one schema, and a new one now and then.
  const Schema& schema_of(const std::shared_ptr<arrow::Schema>& schema) const {
    const std::lock_guard lock(mutex_);
    for (const auto& known : schemas_)
      if (known->schema->Equals(*schema, false)) return *known;
    auto added = std::unique_ptr<Schema>(
        new Schema{schema, ArrowBlocks(*schema, &requests_, na_strings_, kPlace), filters_, {}});
    const std::vector<ArrowField> fields = arrow_fields(*schema);
    std::vector<ColumnSpec> names;
    for (const ArrowField& field : fields) names.push_back({field.field.name, ColumnType::kText});
    for (RowFilter& filter : added->filters) {
      const ArrowField& field = fields[static_cast<size_t>(find_column(names, filter, kPlace))];
      filter.set_field(field.field, kPlace);
      added->filtered.push_back(field);
    }
    schemas_.push_back(std::move(added));
    return *schemas_.back();
  }

  const std::vector<ColumnRequest> requests_;
  const std::vector<std::string> na_strings_;
  const std::vector<RowFilter> filters_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Schema>> schemas_;
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
