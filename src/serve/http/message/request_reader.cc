#include "serve/http/message/request_reader.h"

#include <algorithm>
#include <cstring>

#include "core/system/caught_error.h"
#include "serve/protocol/status.h"

namespace emblem {
namespace {

constexpr size_t kReadBytes = 16384;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

void HttpRequestReader::next() {
  scanner_.reset();
  chunks_.reset();
  body_.reset();
  is_direct_ = false;
}

std::span<std::byte> HttpRequestReader::prepare() {
  if (is_direct_) return body_->prepare(body_->limit() - body_->size());
  if (begin_ == end_) begin_ = end_ = 0;
  if (buffer_.size() - end_ < kReadBytes && begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  const size_t most = limits_.max_header_bytes + kReadBytes;
  if (buffer_.size() - end_ < kReadBytes) buffer_.resize(std::min(end_ + kReadBytes, most));
  return std::as_writable_bytes(std::span(buffer_)).subspan(end_);
}

void HttpRequestReader::commit(size_t bytes) {
  if (!is_direct_) {
    end_ += bytes;
    return;
  }
  body_->commit(bytes);
}

void HttpRequestReader::drop_input() {
  is_direct_ = false;
  begin_ = end_ = 0;
}

HttpRequestReader::State HttpRequestReader::refuse(int status, std::string message) {
  refusal_ = {status, std::move(message)};
  return State::kRefused;
}

HttpRequestReader::State HttpRequestReader::refuse_body() {
  return refuse(413, cat("the body has more than ", max_body_bytes_, " bytes"));
}

template <class Read>
HttpRequestReader::State HttpRequestReader::guarded(Read&& read) {
  try {
    return read();
  } catch (...) {
    const Error error = caught_error();
    return refuse(http_status(error.code()), error.what());
  }
}

HttpRequestReader::State HttpRequestReader::read_head() {
  return guarded([&] {
    const std::string_view bytes = input();
    const size_t size = scanner_.scan(bytes.substr(0, limits_.max_header_bytes));
    if (size == 0 && bytes.size() >= limits_.max_header_bytes)
      return refuse(431, cat("the header has more than ", limits_.max_header_bytes, " bytes"));
    if (size == 0) return State::kNeedMore;
    head_.text.assign(bytes.substr(0, size));
    begin_ += size;
    parse_request_head(head_);
    return State::kHead;
  });
}

HttpRequestReader::State HttpRequestReader::begin_body(size_t aligned_at, size_t max_bytes) {
  const uint64_t length = head_.content_length.value_or(0);
  max_body_bytes_ = std::min(max_bytes, limits_.max_body_bytes);
  if (length > max_body_bytes_) return refuse_body();
  if (head_.is_chunked) {
    chunks_.emplace(limits_.max_header_bytes);
    body_.emplace(aligned_at, max_body_bytes_, limits_.budget);
    return State::kNeedMore;
  }
  return guarded([&] {
    if (limits_.budget != nullptr) limits_.budget->require_can_fit(length);
    body_.emplace(aligned_at, static_cast<size_t>(length), limits_.budget);
    const std::string_view arrived = input().substr(0, length);
    body_->append(bytes_of(arrived));
    begin_ += arrived.size();
    return read_directly();
  });
}

HttpRequestReader::State HttpRequestReader::read_body() {
  return guarded([&] { return chunks_ ? read_chunks() : read_directly(); });
}

// What is missing of a body of known length is read to where it belongs.
HttpRequestReader::State HttpRequestReader::read_directly() {
  is_direct_ = body_->size() < body_->limit();
  if (!is_direct_) return State::kComplete;
  body_->prepare(body_->limit() - body_->size());
  return State::kNeedMore;
}

HttpRequestReader::State HttpRequestReader::read_chunks() {
  for (;;) {
    const HttpChunkedReader::Part part = chunks_->read(input());
    begin_ += part.used;
    const size_t room = max_body_bytes_ - body_->size();
    if (part.body.size() > room || chunks_->chunk_left() > room - part.body.size())
      return refuse_body();
    body_->append(bytes_of(part.body));
    if (chunks_->is_done()) return State::kComplete;
    if (part.used == 0) return State::kNeedMore;
  }
}

}  // namespace emblem
