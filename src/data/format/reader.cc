#include "data/format/reader.h"

#include <algorithm>

#include "data/format/decoder.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 20;
constexpr int64_t kPieceRecords = 8192;

class SequentialReader final : public BlockReader {
 public:
  explicit SequentialReader(const DataSource& source)
      : decoder_(make_decoder(source, nullptr)), max_bad_rows_(source.max_bad_rows) {
    for (size_t i = 0; i < decoder_->files().size(); ++i) {
      total_bytes_ += decoder_->file_bytes(static_cast<int>(i));
    }
    rows_.resize(decoder_->files().size());
    parts_ = decoder_->parts(0);
    if (!parts_.empty()) at_ = parts_[0].begin;
  }

  bool next(Block& block) override {
    while (find_rows()) {
      const int64_t end = parts_[part_].end;
      const int64_t size = decoder_->unit() == ExtentUnit::kBytes ? kPieceBytes : kPieceRecords;
      const Extent range{at_, std::min(end, at_ + size)};
      std::swap(piece_.block, block);
      decoder_->decode(file_, range, RowSample{}, nullptr, piece_);
      at_ = range.end;
      bytes_ += piece_.bytes;
      std::swap(piece_.block, block);
      rows_[static_cast<size_t>(file_)] += block.rows;
      count_bad_rows();
      if (block.rows > 0) return true;
    }
    block.rows = 0;
    return false;
  }

  const std::vector<ColumnSpec>& schema() const override { return decoder_->columns(); }
  int64_t bad_rows() const override { return bad_rows_; }
  int64_t bytes_read() const override { return bytes_; }
  int64_t total_bytes() const override { return total_bytes_; }
  const std::vector<std::string>& files() const override { return decoder_->files(); }
  const std::vector<int64_t>& rows_of_files() const override { return rows_; }

 private:
  // Moves on to the part that has the next rows; false at the end.
  bool find_rows() {
    while (part_ >= parts_.size() || at_ >= parts_[part_].end) {
      if (part_ + 1 < parts_.size()) {
        at_ = parts_[++part_].begin;
        continue;
      }
      if (++file_ >= static_cast<int>(decoder_->files().size())) return false;
      parts_ = decoder_->parts(file_);
      part_ = 0;
      if (!parts_.empty()) at_ = parts_[0].begin;
    }
    return true;
  }

  void count_bad_rows() {
    if (piece_.bad.count == 0) return;
    if (first_bad_.empty()) first_bad_ = decoder_->describe(file_, piece_.bad);
    bad_rows_ += piece_.bad.count;
    if (bad_rows_ > max_bad_rows_) throw too_many_bad_rows(bad_rows_, max_bad_rows_, first_bad_);
  }

  std::unique_ptr<Decoder> decoder_;
  int64_t max_bad_rows_;
  int file_ = 0;
  std::vector<Extent> parts_;  // parts of the file
  size_t part_ = 0;
  int64_t at_ = 0;
  DecodedPiece piece_;
  int64_t bad_rows_ = 0;
  int64_t bytes_ = 0;
  int64_t total_bytes_ = 0;
  std::vector<int64_t> rows_;
  std::string first_bad_;
};

}  // namespace

DataSource source_of(const config::DataConfig& data, const std::string& input,
                     const Storage& storage) {
  DataSource source;
  source.storage = storage == nullptr && has_remote_inputs(input) ? open_storage(data) : storage;
  source.type = data.dataset_type();
  source.input = input;
  source.delimiter = data.delimiter();
  source.with_header = data.with_header();
  source.fields.assign(data.input_fields().begin(), data.input_fields().end());
  source.na_strings.assign(data.na_strings().begin(), data.na_strings().end());
  source.num_dense = static_cast<int>(data.num_dense());
  source.num_sparse = static_cast<int>(data.num_sparse());
  source.max_bad_rows = static_cast<int64_t>(data.max_bad_rows());
  source.filters.assign(data.filters().begin(), data.filters().end());
  return source;
}

std::unique_ptr<BlockReader> open_reader(const DataSource& source) {
  return std::make_unique<SequentialReader>(source);
}

}  // namespace emblem
