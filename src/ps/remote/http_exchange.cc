#include "ps/remote/http_exchange.h"

#include <poll.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <vector>

#include "core/text.h"
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

// False unless all of `text` is a number.
bool parse_number(std::string_view text, size_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

int milliseconds_until(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 3600'000));
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

ServerConnection HttpExchange::take_connection() {
  if (closes_) connection_.close();
  return std::move(connection_);
}

void HttpExchange::restart(ServerConnection connection) {
  connection_ = std::move(connection);
  state_ = State::kSending;
  sent_ = 0;
  received_.clear();
  body_begin_ = 0;
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
  while (sent_ < request_.size()) {
    ServerConnection::Result result = connection_.send(std::string_view(request_).substr(sent_));
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
    const size_t wanted = body_begin_ > 0 ? body_begin_ + body_bytes_ - had : kReadBytes;
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
  size_t status = 0;
  if (lines[0].size() < kVersion.size() + 3 ||
      !parse_number(std::string_view(lines[0]).substr(kVersion.size(), 3), status))
    return fail("its answer is not HTTP/1.1");
  bool has_length = false;
  for (size_t i = 1; i < lines.size(); ++i) {
    const size_t colon = lines[i].find(':');
    if (colon == std::string::npos) return fail("its answer is not HTTP/1.1");
    const std::string_view name = std::string_view(lines[i]).substr(0, colon);
    const std::string_view value = trim(std::string_view(lines[i]).substr(colon + 1));
    if (equal_names(name, "content-length")) {
      if (has_length || !parse_number(value, body_bytes_))
        return fail("its answer has no valid Content-Length");
      has_length = true;
    } else if (equal_names(name, "transfer-encoding") || equal_names(name, "content-encoding")) {
      return fail(cat("its answer is encoded (", printable(value), "), which was not asked for"));
    } else if (equal_names(name, "connection")) {
      closes_ = equal_names(value, "close");
    }
  }
  if (!has_length) return fail("its answer has no Content-Length");
  if (body_bytes_ > most_bytes_)
    return fail(
        cat("its answer has ", body_bytes_, " bytes; at most ", most_bytes_, " were expected"));
  status_ = static_cast<int>(status);
  body_begin_ = end + 4;
  received_.reserve(body_begin_ + body_bytes_ + 1);
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
    poll(waiting.data(), waiting.size(), milliseconds_until(deadline));
    for (size_t i = 0; i < waiting.size(); ++i)
      if (waiting[i].revents != 0) waiters[i]->advance();
  }
  for (HttpExchange* exchange : waiters) {
    exchange->has_timed_out_ = true;
    exchange->fail("it did not answer in time");
  }
}

}  // namespace emblem
