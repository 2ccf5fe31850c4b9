#include "ps/remote/http_exchange.h"

#include <poll.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <vector>

#include "core/text/parse_number.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;
using End = ServerConnection::Result::End;

constexpr size_t kMostHead = 16 << 10;  // bytes of an answer's header
constexpr std::string_view kVersion = "HTTP/1.1 ";
constexpr size_t kReadBytes = 64 << 10;

bool equal_names(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

}  // namespace

std::string http_post(std::string_view host, std::string_view path, std::string_view token,
                      std::string_view body) {
  std::string text =
      cat("POST ", path, " HTTP/1.1\r\nHost: ", host,
          "\r\nContent-Type: application/octet-stream\r\nContent-Length: ", body.size(), "\r\n");
  if (!token.empty()) text += cat("Authorization: Bearer ", token, "\r\n");
  text += "\r\n";
  text += body;
  return text;
}

std::string_view HttpExchange::header(std::string_view name) const {
  std::string_view head = std::string_view(received_).substr(0, body_begin_);
  while (!head.empty()) {
    const std::string_view line = head.substr(0, head.find('\n'));
    head.remove_prefix(std::min(line.size() + 1, head.size()));
    const size_t colon = std::min(line.find(':'), line.size());
    if (equal_names(line.substr(0, colon), name) && colon < line.size())
      return trim(line.substr(colon + 1));
  }
  return {};
}

ServerConnection HttpExchange::take_connection() {
  if (closes_) connection_.close();
  return std::move(connection_);
}

void HttpExchange::restart(ServerConnection connection) {
  connection_ = std::move(connection);
  state_ = State::kSending;
  sent_ = 0;
  received_.clear();
  body_begin_ = body_bytes_ = chunk_begin_ = 0;
  has_timed_out_ = false;
}

void HttpExchange::fail(std::string problem) {
  state_ = State::kFailed;
  problem_ = std::move(problem);
  connection_.close();
}

void HttpExchange::advance() {
  if (state_ == State::kSending) send();
  if (state_ == State::kReceiving) receive();
}

void HttpExchange::send() {
  while (sent_ < request_->size()) {
    ServerConnection::Result result = connection_.send(std::string_view(*request_).substr(sent_));
    if (result.end == End::kBlocked) return;
    if (result.end == End::kClosed) return fail("it closed the connection without an answer");
    if (result.end == End::kFailed) return fail(std::move(result.problem));
    sent_ += result.bytes;
  }
  state_ = State::kReceiving;
}

void HttpExchange::receive() {
  while (state_ == State::kReceiving) {
    const size_t had = received_.size();
    const bool is_length_known = body_begin_ > 0 && chunk_begin_ == 0;
    const size_t wanted = is_length_known ? body_begin_ + body_bytes_ - had : kReadBytes;
    received_.resize(had + std::max<size_t>(1, wanted));
    ServerConnection::Result result =
        connection_.receive(received_.data() + had, received_.size() - had);
    received_.resize(had + result.bytes);
    if (result.end == End::kBlocked) return;
    if (result.end == End::kFailed) return fail(std::move(result.problem));
    if (result.end == End::kClosed)
      return fail(had == 0 ? "it closed the connection without an answer"
                           : "it closed the connection in the middle of an answer");
    if (body_begin_ == 0) read_head();
    if (state_ != State::kReceiving || body_begin_ == 0) continue;
    if (chunk_begin_ > 0) {
      read_chunks();
      continue;
    }
    if (received_.size() > body_begin_ + body_bytes_)
      return fail("it sent more than the answer to the request");
    if (received_.size() == body_begin_ + body_bytes_) state_ = State::kDone;
  }
}

// The status line and what must be known about the body.
void HttpExchange::read_head() {
  const std::string_view start = std::string_view(received_).substr(0, kVersion.size());
  if (!kVersion.starts_with(start)) return fail("its answer is not HTTP/1.1");
  const size_t end = received_.find("\r\n\r\n");
  if (end == std::string::npos) {
    if (received_.size() > kMostHead) fail("its answer has a header without an end");
    return;
  }
  const std::vector<std::string> lines = split(std::string_view(received_).substr(0, end), '\n');
  std::optional<size_t> status;
  if (lines[0].size() >= kVersion.size() + 3)
    status = parse_number<size_t>(std::string_view(lines[0]).substr(kVersion.size(), 3));
  if (!status) return fail("its answer is not HTTP/1.1");
  bool has_length = false, is_chunked = false;
  for (size_t i = 1; i < lines.size(); ++i) {
    const size_t colon = lines[i].find(':');
    if (colon == std::string::npos) return fail("its answer is not HTTP/1.1");
    const std::string_view name = std::string_view(lines[i]).substr(0, colon);
    const std::string_view value = trim(std::string_view(lines[i]).substr(colon + 1));
    if (equal_names(name, "content-length")) {
      const auto length = parse_number<size_t>(value);
      if (has_length || !length) return fail("its answer has no valid Content-Length");
      body_bytes_ = *length;
      has_length = true;
    } else if (equal_names(name, "transfer-encoding") && equal_names(value, "chunked")) {
      is_chunked = true;
    } else if (equal_names(name, "transfer-encoding") || equal_names(name, "content-encoding")) {
      return fail(cat("its answer is encoded (", printable(value), "), which was not asked for"));
    } else if (equal_names(name, "connection")) {
      closes_ = equal_names(value, "close");
    }
  }
  if (has_length == is_chunked)
    return fail(has_length ? "its answer is chunked, but has a Content-Length"
                           : "its answer has no Content-Length");
  if (body_bytes_ > most_bytes_)
    return fail(
        cat("its answer has ", body_bytes_, " bytes; at most ", most_bytes_, " were expected"));
  status_ = static_cast<int>(*status);
  body_begin_ = end + 4;
  if (is_chunked) chunk_begin_ = body_begin_;
  received_.reserve(body_begin_ + body_bytes_ + 1);
}

// Moves the chunks that are complete to the body before them.
void HttpExchange::read_chunks() {
  for (;;) {
    const size_t line_end = received_.find("\r\n", chunk_begin_);
    if (line_end == std::string::npos) {
      if (received_.size() - chunk_begin_ > kMostHead)
        fail("its answer has a chunk without a size");
      return;
    }
    size_t bytes = 0;
    const char* const line = received_.data() + chunk_begin_;
    const auto number = std::from_chars(line, received_.data() + line_end, bytes, 16);
    if (number.ec != std::errc() || (*number.ptr != '\r' && *number.ptr != ';'))
      return fail("its answer has a chunk without a size");
    if (bytes > most_bytes_ - body_bytes_)
      return fail(cat("its answer has more than the ", most_bytes_, " bytes that were expected"));
    const size_t begin = line_end + 2;
    if (bytes == 0) {  // trailers may follow, then an empty line
      const size_t end = received_.find("\r\n\r\n", line_end);
      if (end == std::string::npos) {
        if (received_.size() - begin > kMostHead) fail("its answer has a trailer without an end");
        return;
      }
      if (end + 4 != received_.size()) return fail("it sent more than the answer to the request");
      received_.resize(body_begin_ + body_bytes_);
      state_ = State::kDone;
      return;
    }
    if (received_.size() < begin + bytes + 2) return;
    if (received_.compare(begin + bytes, 2, "\r\n") != 0)
      return fail("its answer has a chunk without an end");
    std::memmove(received_.data() + body_begin_ + body_bytes_, received_.data() + begin, bytes);
    body_bytes_ += bytes;
    chunk_begin_ = begin + bytes + 2;
  }
}

void run_exchanges(std::span<HttpExchange* const> exchanges, Deadline deadline) {
  std::vector<pollfd> waiting;
  std::vector<HttpExchange*> waiters;
  for (HttpExchange* exchange : exchanges) exchange->advance();
  for (;;) {
    waiting.clear();
    waiters.clear();
    for (HttpExchange* exchange : exchanges) {
      if (exchange->is_over()) continue;
      const ServerConnection& connection = exchange->connection_;
      waiting.push_back({connection.descriptor(), connection.waits_for(), 0});
      waiters.push_back(exchange);
    }
    if (waiting.empty()) return;
    if (Clock::now() >= deadline) break;
    poll(waiting.data(), waiting.size(), poll_timeout(deadline));
    for (size_t i = 0; i < waiting.size(); ++i)
      if (waiting[i].revents != 0) waiters[i]->advance();
  }
  for (HttpExchange* exchange : waiters) {
    exchange->has_timed_out_ = true;
    exchange->fail("it did not answer in time");
  }
}

}  // namespace emblem
