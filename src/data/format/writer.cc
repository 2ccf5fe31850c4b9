#include "data/format/writer.h"

#include <algorithm>
#include <filesystem>

#include "core/text/joined.h"
#include "core/text/text.h"
#include "data/format/encoder.h"
#include "emblem/error.h"

namespace emblem {
namespace {

struct Format {
  const char* name;
  std::unique_ptr<RowEncoder> (*make)(const std::vector<ColumnSpec>&, const WriterOptions&);
};

constexpr Format kFormats[] = {
    {"tsv", make_tsv_encoder},     {"csv", make_csv_encoder},         {"raw", make_raw_encoder},
    {"split", make_split_encoder}, {"parquet", make_parquet_encoder}, {"orc", make_orc_encoder},
    {"arrow", make_arrow_encoder},
};

// Streams of bytes.
class StreamSink final : public RowSink {
 public:
  StreamSink(const std::string& path, size_t stream, const std::string& header)
      : file_(path), stream_(stream) {
    file_.write(header);
  }

  void write(const EncodedRows& rows) override { file_.write(rows.streams[stream_]); }
  int64_t bytes_written() const override { return static_cast<int64_t>(file_.bytes_written()); }
  void finish() override { file_.finish(); }

 private:
  FileWriter file_;
  size_t stream_;
};

}  // namespace

std::unique_ptr<RowSink> RowEncoder::open(const std::string& path, size_t index) const {
  return std::make_unique<StreamSink>(path, index, header());
}

std::string part_name(int part, const char* ending) {
  std::string number = std::to_string(part);
  return "part-" + std::string(number.size() < 5 ? 5 - number.size() : 0, '0') + number + ending;
}

const std::vector<std::string>& writable_formats() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Format& format : kFormats) list.push_back(format.name);
    return list;
  }();
  return names;
}

std::unique_ptr<RowWriter> make_writer(const std::string& format, const std::string& folder,
                                       const std::vector<ColumnSpec>& schema,
                                       const WriterOptions& options) {
  for (const Format& one : kFormats) {
    if (format == one.name) {
      return std::make_unique<RowWriter>(folder, one.make(schema, options), options);
    }
  }
  throw Error(ErrorCode::kInvalidArgument, cat("unknown output format '", format,
                                               "'; expected one of ", joined(writable_formats())));
}

RowWriter::RowWriter(const std::string& folder, std::unique_ptr<RowEncoder> encoder,
                     const WriterOptions& options)
    : folder_(folder, options.overwrite),
      encoder_(std::move(encoder)),
      bundle_bytes_(options.bundle_bytes) {
  EMBLEM_REQUIRE(bundle_bytes_ >= 0, "the size of a bundle is ", bundle_bytes_,
                 "; expected 0 or more");
  EMBLEM_REQUIRE(bundle_bytes_ == 0 || encoder_->can_be_bundled(),
                 "split data has one file for each kind of value and cannot be bundled; remove "
                 "the bundle size");
}

RowWriter::~RowWriter() = default;

void RowWriter::write(const Block& block) {
  encode(block, rows_, scratch_);
  append(scratch_);
}

void RowWriter::encode(const Block& block, int64_t first_row, EncodedRows& out) const {
  EMBLEM_REQUIRE(block.columns.size() == encoder_->columns(), "a block has ", block.columns.size(),
                 " columns, but the writer was made for ", encoder_->columns());
  out.rows = block.rows;
  encoder_->encode(block, first_row, out);
}

void RowWriter::append(const EncodedRows& rows) {
  if (rows.rows == 0) return;
  const int64_t added = rows.streams.empty() ? 0 : static_cast<int64_t>(rows.streams[0].size());
  const bool full =
      !files_.empty() && bundle_bytes_ > 0 && files_[0]->bytes_written() + added > bundle_bytes_;
  if (full) close_files();
  if (files_.empty()) open_files();
  for (const auto& file : files_) file->write(rows);
  largest_keys_.resize(rows.largest_keys.size(), -1);
  for (size_t i = 0; i < largest_keys_.size(); ++i) {
    largest_keys_[i] = std::max(largest_keys_[i], rows.largest_keys[i]);
  }
  rows_ += rows.rows;
}

void RowWriter::open_files() {
  for (const std::string& name : encoder_->file_names(parts_))
    files_.push_back(
        encoder_->open((std::filesystem::path(folder_.path()) / name).string(), files_.size()));
  ++parts_;
}

void RowWriter::close_files() {
  for (const auto& file : files_) {
    file->finish();
    bytes_ += file->bytes_written();
  }
  files_.clear();
}

void RowWriter::finish() {
  if (parts_ == 0) open_files();  // a data set without rows has its files all the same
  close_files();
  encoder_->complete(folder_.path(), largest_keys_);
  folder_.commit();
}

}  // namespace emblem
