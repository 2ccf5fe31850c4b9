// serve/http2/session.h - the server's side of an HTTP/2 connection without its socket: bytes that
// arrived go in, bytes to send come out. Frames, header compression and flow control are
// libnghttp2's.
//
// What a client can make the server hold is bounded: streams, header bytes, unread bytes of bodies
// (flow control), answers to its PING and SETTINGS. A client that resets streams or sends useless
// frames faster than the limits allow gets GOAWAY and its connection is closed.
//
// Used by one thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "serve/http2/headers.h"
#include "serve/protocol/memory_budget.h"

namespace emblem {

struct Http2Limits {
  uint32_t max_streams = 128;  // streams of a connection at a time; more are refused
  size_t max_header_bytes = size_t{16} << 10;
  // Bytes that a client may send ahead of Http2Stream::consume.
  uint32_t stream_window = 256 << 10;
  uint32_t connection_window = 1 << 20;
  // Limits of streams that the client resets, or makes the server reset.
  uint32_t reset_burst = 1000, resets_per_second = 100;
  // Limits of frames without use.
  uint32_t frame_burst = 10'000, frames_per_second = 1000;
  // Time for a request's header, and for what is to be sent; a second more for each 64 KiB of
  // it.
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
  std::function<std::chrono::steady_clock::time_point()> clock = std::chrono::steady_clock::now;
};

// RFC 9113, section 7.
enum class Http2Error : uint32_t {
  kNone = 0,
  kProtocol = 1,
  kInternal = 2,
  kRefusedStream = 7,
  kCancel = 8,
  kEnhanceYourCalm = 11,
};

// How long a transfer may take of which this many bytes have passed.
std::chrono::milliseconds transfer_time(std::chrono::milliseconds timeout, size_t bytes);

// The response of one stream. Valid until Http2Handler::on_closed.
class Http2Stream {
 public:
  virtual void respond(const Http2Fields& fields) = 0;
  // A response without a body.
  virtual void respond_only(const Http2Fields& fields) = 0;
  // Called after respond. `lease` is held until the bytes have been sent.
  virtual void write(std::string bytes, MemoryBudget::Lease lease) = 0;
  // Ends the body; once.
  virtual void finish(const Http2Fields& trailers) = 0;
  virtual void reset(Http2Error error) = 0;
  // Allows the client to send this many bytes more.
  virtual void consume(size_t bytes) = 0;
  // Bytes that were written and wait to be sent.
  virtual size_t unsent() const = 0;

 protected:
  ~Http2Stream() = default;
};

// What a stream's request is handled by. What its methods throw closes the connection.
class Http2Handler {
 public:
  virtual ~Http2Handler() = default;
  virtual void on_data(std::span<const std::byte> bytes) = 0;
  virtual void on_end() = 0;  // the client has sent all
  virtual void on_sent() {}   // unsent() is 0 again
  // The stream is over: reset, answered, or its connection closed. Called once, and last.
  virtual void on_closed() = 0;
  // The server is about to stop: calls that do not end by themselves should.
  virtual void on_drain() {}
  // Now and then.
  virtual void on_tick(std::chrono::steady_clock::time_point) {}
  // Whether a request is under way, so that the connection should not be closed for a new one.
  virtual bool is_busy() const { return true; }
};

class Http2Session {
 public:
  // Begins the answer to a request, whose headers are complete. Must not return null.
  using Open = std::function<std::shared_ptr<Http2Handler>(Http2Stream&, Http2Headers)>;

  // `on_output`: called when there may be something to send, other than by receive().
  Http2Session(const Http2Limits& limits, Open open, std::function<void()> on_output);
  ~Http2Session();  // closes all streams

  // Takes all bytes. False: the connection must be closed once its output is sent.
  [[nodiscard]] bool receive(std::span<const std::byte> bytes);
  // Appends what is to be sent to `out`, until it has `most` bytes or a little more.
  void take_output(std::string& out, size_t most);

  // No further streams; those under way may end.
  void go_away(Http2Error error = Http2Error::kNone);
  void drain();  // go_away, and on_drain of all streams
  void ping();
  // False: a request's header takes too long, and the connection must be closed.
  [[nodiscard]] bool tick(std::chrono::steady_clock::time_point now);

  bool has_begun() const;  // the client has sent its preface and SETTINGS
  bool is_over() const;    // nothing is to be read or sent any more
  size_t streams() const;
  bool is_busy() const;  // one of the streams is

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace emblem
