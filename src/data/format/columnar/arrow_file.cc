// Arrow IPC files, and ORC files as their readers send them: a part is a record batch or a stripe.
#ifdef EMBLEM_WITH_ARROW
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>

#include "data/format/columnar/arrow_input.h"
#include "data/format/columnar/arrow_table.h"
#include "data/format/columnar/columnar_decoder.h"
#include "data/format/columnar/orc_process.h"
#include "data/format/memory/table_file.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// What both formats share. `columns` are positions in the schema.
class BatchFile : public ColumnarFile {
 public:
  BatchFile(const std::string& path, const Storage& storage)
      : path_(path), input_(std::make_shared<ArrowInput>(path, storage)) {}

  const std::string& path() const override { return path_; }
  int64_t bytes() const override { return input_->file().bytes(); }
  const std::vector<ColumnarField>& fields() const override { return fields_; }
  const std::vector<int64_t>& part_rows() const override { return part_rows_; }
  bool read_directly() override { return input_->file().read_directly(); }
  void prefetch(int64_t offset, int64_t count) const override {
    input_->file().prefetch(offset, count);
  }

  // Bytes by the share of its rows and columns.
  int64_t part_bytes(int part, const std::vector<ColumnRead>& columns) const override {
    int64_t rows = 0;
    for (const int64_t each : part_rows_) rows += each;
    const double share = static_cast<double>(part_rows_[static_cast<size_t>(part)]) /
                         static_cast<double>(std::max<int64_t>(rows, 1)) *
                         static_cast<double>(columns.size()) /
                         static_cast<double>(std::max<size_t>(fields_.size(), 1));
    return static_cast<int64_t>(share * static_cast<double>(bytes()));
  }

  std::unique_ptr<PartReader> open(int part,
                                   const std::vector<ColumnRead>& columns) const override {
    std::vector<int> wanted;  // positions in the schema, ascending
    for (const ColumnRead& read : columns)
      wanted.push_back(array_fields_[static_cast<size_t>(read.field)].path[0]);
    std::sort(wanted.begin(), wanted.end());
    wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
    std::vector<ArrayField> fields;
    for (const ColumnRead& read : columns) {
      ArrayField& field = fields.emplace_back(array_fields_[static_cast<size_t>(read.field)]);
      field.path[0] = static_cast<int>(
          std::lower_bound(wanted.begin(), wanted.end(), field.path[0]) - wanted.begin());
    }
    const std::string place = cat(path_, ": ", part_name(), " ", part + 1);
    std::shared_ptr<arrow::RecordBatch> batch = read_batch(part, wanted, place);
    return open_table_part(table_of(*batch, place), std::move(fields), columns, place);
  }

 protected:
  // The columns `wanted` of a part, in that order.
  virtual std::shared_ptr<arrow::RecordBatch> read_batch(int part, const std::vector<int>& wanted,
                                                         const std::string& place) const = 0;

  void set_schema(const arrow::Schema& schema) {
    array_fields_ = array_fields_of(schema, path_);
    for (const ArrayField& field : array_fields_) fields_.push_back(field.field);
  }

  std::string path_;
  std::shared_ptr<ArrowInput> input_;
  std::vector<ArrayField> array_fields_;
  std::vector<ColumnarField> fields_;
  std::vector<int64_t> part_rows_;
};

class IpcFile final : public BatchFile {
 public:
  IpcFile(const std::string& path, const Storage& storage) : BatchFile(path, storage) {
    set_schema(*open_reader({})->schema());
    const auto reader = open_reader({0});  // one column is enough to count rows
    for (int i = 0; i < reader->num_record_batches(); ++i)
      part_rows_.push_back(value_of(reader->ReadRecordBatch(i), path)->num_rows());
  }

  const char* part_name() const override { return "record batch"; }

 protected:
  // A reader is not shared by threads: it keeps dictionaries.
  std::shared_ptr<arrow::RecordBatch> read_batch(int part, const std::vector<int>& wanted,
                                                 const std::string& place) const override {
    return value_of(open_reader(wanted)->ReadRecordBatch(part), place);
  }

 private:
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> open_reader(
      const std::vector<int>& wanted) const {
    arrow::ipc::IpcReadOptions options;
    options.included_fields = wanted;
    options.use_threads = false;
    return value_of(arrow::ipc::RecordBatchFileReader::Open(input_, options), path_);
  }
};

class OrcFile final : public BatchFile {
 public:
  OrcFile(const std::string& path, const Storage& storage) : BatchFile(path, storage) {
    OrcLayout layout = read_orc_layout(*input_, path);
    set_schema(*layout.schema);
    const int64_t rows = layout.rows;
    part_rows_ = std::move(layout.stripe_rows);
    int64_t counted = 0;
    for (size_t i = 0; i < part_rows_.size(); ++i) {
      if (part_rows_[i] < 0 || part_rows_[i] > rows - counted)
        throw Error(ErrorCode::kCorruption, cat(path, ": stripe ", i + 1, " has ", part_rows_[i],
                                                " rows, but the file has ", rows));
      counted += part_rows_[i];
    }
    if (counted != rows)
      throw Error(ErrorCode::kCorruption,
                  cat(path, " has ", rows, " rows, but its stripes have ", counted));
  }

  const char* part_name() const override { return "stripe"; }

 protected:
  std::shared_ptr<arrow::RecordBatch> read_batch(int part, const std::vector<int>& wanted,
                                                 const std::string& place) const override {
    return read_orc_stripe(*input_, part, wanted, place);
  }
};

}  // namespace

std::unique_ptr<ColumnarFile> open_arrow_file(const std::string& path, const Storage& storage) {
  return std::make_unique<IpcFile>(path, storage);
}

std::unique_ptr<ColumnarFile> open_orc_file(const std::string& path, const Storage& storage) {
  return std::make_unique<OrcFile>(path, storage);
}

}  // namespace emblem
#endif
