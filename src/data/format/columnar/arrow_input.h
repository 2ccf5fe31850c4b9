// data/format/columnar/arrow_input.h - files as Arrow reads them, and its errors as ours. Internal
// to data/format: includes Arrow.
#pragma once

#include <arrow/io/interfaces.h>
#include <arrow/result.h>

#include <memory>
#include <string>

#include "data/format/input_file.h"
#include "emblem/error.h"

namespace emblem {

// Reads through an InputFile: past the page cache where that does, at most as fast as it may.
// ReadAt may run concurrently.
class ArrowInput final : public arrow::io::RandomAccessFile {
 public:
  ArrowInput(std::string path, const Storage& storage) : file_(std::move(path), storage) {}

  InputFile& file() { return file_; }

  arrow::Status Close() override;
  bool closed() const override { return closed_; }
  arrow::Result<int64_t> Tell() const override { return at_; }
  arrow::Status Seek(int64_t position) override;
  arrow::Result<int64_t> GetSize() override { return file_.bytes(); }
  arrow::Result<int64_t> Read(int64_t count, void* out) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t count) override;
  using arrow::io::RandomAccessFile::ReadAt;
  arrow::Result<int64_t> ReadAt(int64_t position, int64_t count, void* out) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t count) override;

 private:
  InputFile file_;
  int64_t at_ = 0;
  bool closed_ = false;
};

// `what` as one line of a message about `place`.
Error arrow_error(const std::string& place, const std::string& what);

// Throws arrow_error where `status` is not OK.
void require_ok(const arrow::Status& status, const std::string& place);

template <class T>
T value_of(arrow::Result<T> result, const std::string& place) {
  require_ok(result.status(), place);
  return std::move(result).ValueUnsafe();
}

}  // namespace emblem
