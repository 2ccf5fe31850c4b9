// serve/http2/stream_state.h - a stream of an Http2Session, with its answer while that is sent.
// Includes nghttp2: only for the session's own .cc files.
#pragma once

#include <nghttp2/nghttp2.h>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "serve/http2/session.h"

namespace emblem {

// Throws what a code of nghttp2 means: a caller's mistake, or a lack of memory.
void require_ok(int code, const char* doing);

class Http2StreamState final : public Http2Stream {
 public:
  // All must outlive the stream.
  Http2StreamState(nghttp2_session* session, const Http2Limits& limits,
                   const std::function<void()>& on_output, int32_t id)
      : session_(session),
        limits_(limits),
        on_output_(on_output),
        id_(id),
        begun_(limits.clock()) {}

  void respond(const Http2Fields& fields) override;
  void respond_only(const Http2Fields& fields) override;
  void write(std::string bytes, MemoryBudget::Lease lease) override;
  void finish(const Http2Fields& trailers) override;
  void reset(Http2Error error) override;
  void consume(size_t bytes) override;
  size_t unsent() const override { return unsent_; }

  // Of its header, or of the client in reading its answer.
  bool is_too_slow(std::chrono::steady_clock::time_point now) const;

  Http2Headers headers;
  bool is_header_too_large = false;
  bool is_open = false;                   // its header is complete
  bool has_ended = false;                 // the client has sent all
  std::shared_ptr<Http2Handler> handler;  // null before is_open, and where the session answers

 private:
  struct Chunk {
    std::string bytes;
    MemoryBudget::Lease lease;
  };

  void resume();
  static ssize_t read(nghttp2_session*, int32_t, uint8_t* to, size_t room, uint32_t* flags,
                      nghttp2_data_source* source, void*) noexcept;
  ssize_t read_chunks(uint8_t* to, size_t room, uint32_t& flags);

  nghttp2_session* const session_;
  const Http2Limits& limits_;
  const std::function<void()>& on_output_;
  const int32_t id_;
  const std::chrono::steady_clock::time_point begun_;
  std::deque<Chunk> chunks_;
  size_t first_at_ = 0;  // what has been sent of the first chunk
  size_t unsent_ = 0, sent_ = 0;
  std::chrono::steady_clock::time_point sending_since_;
  bool is_deferred_ = false, is_finished_ = false;
  std::vector<std::pair<std::string, std::string>> trailers_;
};

}  // namespace emblem
