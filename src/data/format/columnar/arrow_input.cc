#ifdef EMBLEM_WITH_ARROW
#include "data/format/columnar/arrow_input.h"

#include <arrow/buffer.h>
#include <arrow/status.h>

#include <algorithm>

#include "core/text/text.h"

namespace emblem {

arrow::Status ArrowInput::Close() {
  closed_ = true;
  return arrow::Status::OK();
}

arrow::Status ArrowInput::Seek(int64_t position) {
  at_ = position;
  return arrow::Status::OK();
}

arrow::Result<int64_t> ArrowInput::ReadAt(int64_t position, int64_t count, void* out) {
  if (position < 0 || count < 0 || position > file_.bytes())
    return arrow::Status::Invalid("a part of the file at byte ", position, " of ", file_.bytes(),
                                  " is read");
  count = std::min(count, file_.bytes() - position);
  try {
    file_.read(position, count, out);
  } catch (const Error& error) {
    return arrow::Status::IOError(error.what());
  }
  return count;
}

arrow::Result<std::shared_ptr<arrow::Buffer>> ArrowInput::ReadAt(int64_t position, int64_t count) {
  if (position < 0 || count < 0 || position > file_.bytes())
    return arrow::Status::Invalid("a part of the file at byte ", position, " of ", file_.bytes(),
                                  " is read");
  count = std::min(count, file_.bytes() - position);
  ARROW_ASSIGN_OR_RAISE(auto buffer, arrow::AllocateResizableBuffer(count));
  ARROW_RETURN_NOT_OK(ReadAt(position, count, buffer->mutable_data()));
  return std::shared_ptr<arrow::Buffer>(std::move(buffer));
}

arrow::Result<int64_t> ArrowInput::Read(int64_t count, void* out) {
  ARROW_ASSIGN_OR_RAISE(const int64_t got, ReadAt(at_, count, out));
  at_ += got;
  return got;
}

arrow::Result<std::shared_ptr<arrow::Buffer>> ArrowInput::Read(int64_t count) {
  ARROW_ASSIGN_OR_RAISE(auto buffer, ReadAt(at_, count));
  at_ += buffer->size();
  return buffer;
}

Error arrow_error(const std::string& place, const std::string& what) {
  std::string line;
  for (const char c : what.substr(0, 400)) line += c == '\n' || c == '\r' ? ' ' : c;
  return {ErrorCode::kCorruption, cat(place, ": ", printable(line))};
}

void require_ok(const arrow::Status& status, const std::string& place) {
  if (!status.ok()) throw arrow_error(place, status.message());
}

}  // namespace emblem
#endif
