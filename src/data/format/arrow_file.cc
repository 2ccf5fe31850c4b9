// Arrow IPC files and ORC files, by Arrow's readers: a part is a record batch or a stripe.
#ifdef EMBLEM_WITH_ARROW
#include <arrow/adapters/orc/adapter.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>

#include "data/format/arrow_block.h"
#include "data/format/arrow_input.h"
#include "data/format/columnar_decoder.h"
#include "data/format/crash_notice.h"
#include "emblem/error.h"

namespace emblem {
namespace {

class ArrowPart final : public PartReader {
 public:
  ArrowPart(std::string place, std::shared_ptr<arrow::RecordBatch> batch,
            std::vector<ArrowField> fields, std::vector<ColumnRead> reads)
      : place_(std::move(place)),
        batch_(std::move(batch)),
        fields_(std::move(fields)),
        reads_(std::move(reads)),
        at_(reads_.size(), 0),
        dictionaries_(reads_.size()) {}

  void read(size_t at, int64_t rows, Column& out, std::vector<ValueProblem>& problems) override {
    if (at_[at] + rows > batch_->num_rows())
      throw Error(ErrorCode::kCorruption,
                  cat(place_, " has ", batch_->num_rows(), " rows, fewer than its metadata says"));
    read_arrow_column(*batch_, fields_[at], reads_[at], at_[at], rows, dictionaries_[at], place_,
                      out, problems);
    at_[at] += rows;
  }

  void skip(int64_t rows) override {
    for (int64_t& at : at_) at += rows;
  }

 private:
  std::string place_;
  std::shared_ptr<arrow::RecordBatch> batch_;
  std::vector<ArrowField> fields_;  // by position in reads_
  std::vector<ColumnRead> reads_;
  std::vector<int64_t> at_;
  std::vector<ArrowDictionary> dictionaries_;
};

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

  // By the share of its rows and columns.
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
      wanted.push_back(arrow_fields_[static_cast<size_t>(read.field)].path[0]);
    std::sort(wanted.begin(), wanted.end());
    wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
    std::vector<ArrowField> fields;
    for (const ColumnRead& read : columns) {
      ArrowField& field = fields.emplace_back(arrow_fields_[static_cast<size_t>(read.field)]);
      field.path[0] = static_cast<int>(
          std::lower_bound(wanted.begin(), wanted.end(), field.path[0]) - wanted.begin());
    }
    const std::string place = cat(path_, ": ", part_name(), " ", part + 1);
    std::shared_ptr<arrow::RecordBatch> batch = read_batch(part, wanted, place);
    require_ok(batch->ValidateFull(), place);
    return std::make_unique<ArrowPart>(place, std::move(batch), std::move(fields), columns);
  }

 protected:
  // The columns `wanted` of a part, in that order.
  virtual std::shared_ptr<arrow::RecordBatch> read_batch(int part, const std::vector<int>& wanted,
                                                         const std::string& place) const = 0;

  void set_schema(const arrow::Schema& schema) {
    arrow_fields_ = arrow_fields(schema);
    for (const ArrowField& field : arrow_fields_) fields_.push_back(field.field);
  }

  std::string path_;
  std::shared_ptr<ArrowInput> input_;
  std::vector<ArrowField> arrow_fields_;
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
    const auto reader = open_reader();
    set_schema(*value_of(reader->ReadSchema(), path));
    // Arrow's reader trusts these numbers with its memory.
    const int64_t rows = reader->NumberOfRows();
    int64_t counted = 0;
    for (int64_t i = 0; i < reader->NumberOfStripes(); ++i) {
      part_rows_.push_back(reader->GetStripeInformation(i).num_rows);
      if (part_rows_.back() < 0 || part_rows_.back() > rows - counted)
        throw Error(ErrorCode::kCorruption,
                    cat(path, ": stripe ", i + 1, " has ", part_rows_.back(),
                        " rows, but the file has ", rows));
      counted += part_rows_.back();
    }
    if (counted != rows)
      throw Error(ErrorCode::kCorruption,
                  cat(path, " has ", rows, " rows, but its stripes have ", counted));
  }

  const char* part_name() const override { return "stripe"; }

 protected:
  std::shared_ptr<arrow::RecordBatch> read_batch(int part, const std::vector<int>& wanted,
                                                 const std::string& place) const override {
    // Damaged lengths of lists and texts ask for petabytes, and Arrow's ORC reader writes to what
    // it did not get.
    const CrashNotice notice(cat(place, " cannot be read: the file is damaged"));
    return value_of(open_reader()->ReadStripe(part, wanted), place);
  }

 private:
  // A reader is not shared by threads.
  std::unique_ptr<arrow::adapters::orc::ORCFileReader> open_reader() const {
    return value_of(arrow::adapters::orc::ORCFileReader::Open(input_, arrow::default_memory_pool()),
                    path_);
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
