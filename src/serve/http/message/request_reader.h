// serve/http/message/request_reader.h - requests out of the bytes of one connection: head, body,
// and what follows them. Reads nothing itself, so that it can be tested and fuzzed without a
// connection.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "serve/http/message/body.h"
#include "serve/http/message/chunked_reader.h"
#include "serve/http/message/request_head.h"

namespace emblem {

struct HttpReadLimits {
  size_t max_header_bytes = size_t{32} << 10;
  size_t max_body_bytes = size_t{64} << 20;
  MemoryBudget* budget = nullptr;  // null: none
};

// A connection calls next(); reads into prepare() and commits until read_head() is kHead, then
// until read_body() is kComplete; takes the body; and calls next() again.
class HttpRequestReader {
 public:
  // kRefused: refusal() says why. Nothing that follows on the connection is a request.
  enum class State { kNeedMore, kHead, kComplete, kRefused };
  struct Refusal {
    int status = 0;
    std::string message;
  };

  explicit HttpRequestReader(HttpReadLimits limits) : limits_(limits) {}

  // Begins a request with what arrived after the one before.
  void next();
  // Whether something has arrived that no request has claimed.
  bool has_input() const { return begin_ != end_; }

  // Where the next bytes go. Must not be called while bytes are on their way into it.
  std::span<std::byte> prepare();
  void commit(size_t bytes);
  // Forgets what has arrived, and has the rest of the body go where nothing uses it.
  void drop_input();

  State read_head();
  // Called after kHead. `aligned_at` as in HttpBodyBuffer; `max_bytes` of the body: at most
  // those of the limits.
  State begin_body(size_t aligned_at, size_t max_bytes);
  State begin_body(size_t aligned_at) { return begin_body(aligned_at, limits_.max_body_bytes); }
  State read_body();

  // Valid until next().
  const HttpRequestHead& head() const { return head_; }
  const Refusal& refusal() const { return refusal_; }
  HttpBody take_body() { return body_ ? body_->take() : HttpBody(); }

 private:
  std::string_view input() const { return {buffer_.data() + begin_, end_ - begin_}; }
  State refuse(int status, std::string message);
  State refuse_body();
  State read_chunks();
  State read_directly();
  template <class Read>
  State guarded(Read&& read);

  HttpReadLimits limits_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;  // range of what has arrived and is not used
  HttpHeadScanner scanner_;
  HttpRequestHead head_;
  std::optional<HttpChunkedReader> chunks_;
  std::optional<HttpBodyBuffer> body_;
  bool is_direct_ = false;     // what arrives goes into body_
  size_t max_body_bytes_ = 0;  // limit of this request
  Refusal refusal_;
};

}  // namespace emblem
