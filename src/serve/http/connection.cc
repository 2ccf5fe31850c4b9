#include "serve/http/connection.h"

#include <poll.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <charconv>

#include "serve/http/message/head.h"
#include "serve/http/message/request_reader.h"
#include "serve/http/message/request_work.h"

namespace emblem {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using ReadState = HttpRequestReader::State;

constexpr size_t kSmallResponse = 16384;         // up to here one write is faster than many pieces
constexpr size_t kHeadBytes = 512;               // about the largest head of a response
constexpr size_t kWriteBytes = size_t{1} << 20;  // at once
constexpr std::chrono::milliseconds kLingering = std::chrono::seconds(1);
// Time for a last request of an idle client, after the server has begun to drain.
constexpr std::chrono::milliseconds kLastRequest = std::chrono::seconds(1);
// How much longer than a connection without a request one with half a request may be idle.
constexpr std::chrono::milliseconds kStalled = std::chrono::seconds(1);
constexpr Clock::time_point kNever = Clock::time_point::max();

std::optional<size_t> parse_length(std::string_view text) {
  size_t length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return length;
}

// Whether nothing can be sent to the client any more.
bool is_reset(TcpSocket& socket) {
  pollfd state{.fd = socket.native_handle(), .events = 0, .revents = 0};
  return ::poll(&state, 1, 0) > 0 && (state.revents & (POLLERR | POLLHUP)) != 0;
}

template <class Stream>
class Connection final : public StreamConnection<Connection<Stream>, Stream> {
  using Base = StreamConnection<Connection<Stream>, Stream>;
  using Base::guarded;
  using Base::is_refused_;
  using Base::shared_;
  using Base::stream_;
  using Base::thread_;

 public:
  template <class... More>
  Connection(HttpShared& http, NetShared& shared, NetThread& thread, bool refused, TcpSocket socket,
             More&... more)
      : Base("an HTTP connection is closed", shared, thread, refused, std::move(socket), more...),
        http_(http),
        client_(client_of(socket_of(stream_), this)),
        is_local_(is_local_peer(socket_of(stream_))),
        reader_({.max_header_bytes = http.options.max_header_bytes,
                 .max_body_bytes = http.options.max_body_bytes,
                 .budget = http.options.memory_budget}),
        lease_(http.options.memory_budget != nullptr
                   ? MemoryBudget::Lease(*http.options.memory_budget)
                   : MemoryBudget::Lease()) {}

  // A client may be sending its next request now: it is answered with "Connection: close", where
  // closing at once would reset it.
  void drain() override {
    if (phase_ == Phase::kIdle)
      deadline_ = std::min(deadline_, http_.options.clock() + kLastRequest);
  }

  void close() override {
    if (phase_ == Phase::kClosed) return;
    phase_ = Phase::kClosed;
    if (cancelled_) *cancelled_ = true;
    error_code ignored;
    socket_of(stream_).close(ignored);
    this->leave(this->shared_from_this());
  }

  // What waits for the client keeps no one else out: a head or a body that does not arrive, an
  // answer that is not read. The latter two give way after connections without a request.
  std::optional<Clock::time_point> idle_since() const override {
    switch (phase_) {
      case Phase::kIdle:
      case Phase::kHead:
        return idle_since_;
      case Phase::kBody:
      case Phase::kWriting:
      case Phase::kLingering:
        return progress_ + kStalled;
      case Phase::kHandling:
      case Phase::kFinishing:
      case Phase::kClosed:
        break;
    }
    return std::nullopt;
  }

  void check_deadline(Clock::time_point now) override {
    if (now < deadline_) return;
    guarded([this] {
      if (phase_ == Phase::kHead || phase_ == Phase::kBody)
        return refuse(408, "the request did not arrive in time");
      if (phase_ == Phase::kIdle && shared_.draining) return linger();
      close();
    });
  }

 private:
  // kFinishing: workers write or compress the response.
  enum class Phase { kIdle, kHead, kBody, kHandling, kFinishing, kWriting, kLingering, kClosed };

  void begin() override { next_request(); }

  // ---- reading ----

  void next_request() {
    if ((is_at_end_ || shared_.draining) && !reader_.has_input()) return close();
    cancelled_.reset();
    reader_.next();
    is_head_only_ = false;
    phase_ = Phase::kIdle;
    idle_since_ = http_.options.clock();
    if (reader_.has_input()) return read_head();
    set_deadline(is_refused_ ? http_.options.read_timeout : http_.options.idle_timeout);
    read();
  }

  // On_read takes what comes. Only one read is under way at a time, and one that began while a
  // request was handled brings the next one.
  void read() {
    if (is_reading_) return;
    if (is_at_end_) return close();
    const std::span<std::byte> room = reader_.prepare();
    is_reading_ = true;
    stream_.async_read_some(asio::buffer(room.data(), room.size()),
                            [self = this->shared_from_this()](error_code error, size_t bytes) {
                              self->is_reading_ = false;
                              self->guarded([&] { self->on_read(error, bytes); });
                            });
  }

  void on_read(error_code error, size_t bytes) {
    if (phase_ == Phase::kClosed) return;
    if (error) return on_read_end(error);
    if (phase_ == Phase::kLingering) return read();  // what was read is not committed
    reader_.commit(bytes);
    if (phase_ == Phase::kIdle || phase_ == Phase::kHead) return read_head();
    if (phase_ == Phase::kBody) {
      extend_deadline(bytes);
      return on_body(reader_.read_body());
    }
    watch_for_reset();  // the next request waits, and nothing is read before its turn
  }

  void on_read_end(error_code error) {
    is_at_end_ = true;
    const bool is_answering =
        phase_ == Phase::kHandling || phase_ == Phase::kFinishing || phase_ == Phase::kWriting;
    const bool is_half_closed =
        error == asio::error::eof || error == asio::ssl::error::stream_truncated;
    if (!is_answering || !is_half_closed) return close();
    watch_for_reset();
  }

  // Notices a client that is gone, though nothing is read. One that has closed its side may still
  // wait for the answer.
  void watch_for_reset() {
    if (is_watching_) return;
    is_watching_ = true;
    socket_of(stream_).async_wait(TcpSocket::wait_error,
                                  [self = this->shared_from_this()](error_code error) {
                                    self->is_watching_ = false;
                                    if (self->phase_ == Phase::kClosed || error) return;
                                    if (is_reset(socket_of(self->stream_))) self->close();
                                  });
  }

  void read_head() {
    if (phase_ == Phase::kIdle) {
      phase_ = Phase::kHead;
      set_deadline(http_.options.read_timeout);
    }
    switch (reader_.read_head()) {
      case ReadState::kNeedMore:
        return read();
      case ReadState::kRefused:
        return refuse(reader_.refusal().status, reader_.refusal().message);
      default:
        return on_head();
    }
  }

  void on_head() {
    const HttpRequestHead& head = reader_.head();
    const HttpServerOptions& options = http_.options;
    is_head_only_ = head.method == "HEAD";
    keeps_alive_ = head.keeps_alive;
    if (is_refused_)
      return refuse(503, cat("the server has its ", options.max_connections,
                             " connections; try again later"));
    if (options.authorize) {
      if (auto refusal = options.authorize(head.target, caller_of(head)))
        return refuse(std::move(*refusal));
    }
    const auto encoding = encoding_from_name(head.value("Content-Encoding"));
    if (!encoding) return refuse(415, "Content-Encoding must be gzip, deflate or identity");
    encoding_ = *encoding;
    max_body_ = max_body_of(head);
    json_bytes_.reset();
    if (const HttpField* field = head.find("Inference-Header-Content-Length")) {
      json_bytes_ = parse_length(field->value);
      if (!json_bytes_)
        return refuse(400, "Inference-Header-Content-Length is not a number of bytes");
    }
    begin_body();
  }

  // Most requests are small: their path need not be looked at.
  size_t max_body_of(const HttpRequestHead& head) const {
    const HttpServerOptions& options = http_.options;
    const bool is_small = !head.is_chunked && encoding_ == ContentEncoding::kIdentity &&
                          head.content_length.value_or(0) <= kSmallBodyBytes;
    if (is_small || !options.takes_payload || options.takes_payload(head.target))
      return options.max_body_bytes;
    return std::min(options.max_body_bytes, kSmallBodyBytes);
  }

  Caller caller_of(const HttpRequestHead& head) const {
    return {.authorization = head.value("Authorization"),
            .is_local = is_local_,
            .header = [&head](const std::string& name) { return head.value(name); }};
  }

  void begin_body() {
    const std::string_view expected = reader_.head().value("Expect");
    const bool waits = equal_ignoring_case(expected, "100-continue");
    if (!expected.empty() && !waits) return refuse(417, "only Expect: 100-continue is understood");
    phase_ = Phase::kBody;
    progress_ = http_.options.clock();
    set_deadline(http_.options.read_timeout);
    // Where the first tensor begins, if the body is not compressed.
    const size_t aligned_at = encoding_ == ContentEncoding::kIdentity ? json_bytes_.value_or(0) : 0;
    ReadState state = reader_.begin_body(aligned_at, max_body_);
    if (state == ReadState::kNeedMore && reader_.has_input()) state = reader_.read_body();
    if (state == ReadState::kNeedMore && waits && !reader_.head().is_http_1_0)
      return send_continue();
    on_body(state);
  }

  void send_continue() {
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    asio::async_write(stream_, asio::buffer(kContinue.data(), kContinue.size()),
                      [self = this->shared_from_this()](error_code error, size_t) {
                        if (self->phase_ != Phase::kBody) return;
                        if (error) return self->close();
                        self->guarded([&] { self->read(); });
                      });
  }

  void on_body(ReadState state) {
    if (state == ReadState::kRefused)
      return refuse(reader_.refusal().status, reader_.refusal().message);
    if (state == ReadState::kNeedMore) return read();
    handle();
  }

  // ---- answering ----

  void handle() {
    phase_ = Phase::kHandling;
    deadline_ = kNever;
    cancelled_ = std::make_shared<std::atomic<bool>>(false);
    ++request_number_;
    HttpRequest request;
    request.method = is_head_only_ ? "GET" : reader_.head().method;
    request.target = reader_.head().target;
    request.json_bytes = json_bytes_;
    request.cancelled = cancelled_;
    request.memory_budget = http_.options.memory_budget;
    request.is_local = is_local_;
    HttpRequestWork work(http_.handler, std::move(request),
                         {reader_.take_body(), encoding_, max_body_}, make_reply());
    if (!work.start()) {
      const auto rest = std::make_shared<HttpRequestWork>(std::move(work));
      if (!http_.workers.try_add(client_, [rest] { return rest->step(); }))
        return respond(error_response(503, "too many large requests wait; try again later"));
    }
    if (phase_ != Phase::kHandling) return;
    if (reader_.has_input() || is_at_end_) return watch_for_reset();
    read();
  }

  HttpReply make_reply() {
    return [weak = this->weak_from_this(), number = request_number_, inbox = thread_.inbox,
            home = thread_.thread.get_id()](HttpResponse response) {
      if (std::this_thread::get_id() == home) {
        if (const auto self = weak.lock()) self->on_reply(number, std::move(response));
        return;
      }
      post_to(*inbox, [weak, number, response = std::move(response)]() mutable {
        if (const auto self = weak.lock()) self->on_reply(number, std::move(response));
      });
    };
  }

  template <class Act>
  static void post_to(ReplyInbox& inbox, Act act) {
    std::lock_guard lock(inbox.mutex);
    if (inbox.context) asio::post(*inbox.context, std::move(act));
  }

  void on_reply(uint64_t number, HttpResponse response) {
    if (phase_ != Phase::kHandling || number != request_number_) return;
    guarded([&] {
      if (response.deferred && !is_long_work(response, ContentEncoding::kIdentity))
        response = response.deferred();
      // Memory is taken before it is written.
      if (response.deferred && !take_memory(response.deferred_json_bytes)) return;
      ContentEncoding accepted = ContentEncoding::kIdentity;
      if (response.is_compressible)
        accepted = choose_encoding(reader_.head().value("Accept-Encoding"));
      if (is_long_work(response, accepted)) return hand_over(std::move(response), accepted);
      respond(finish_response(std::move(response), accepted, http_.options.memory_budget));
    });
  }

  void hand_over(HttpResponse response, ContentEncoding accepted) {
    phase_ = Phase::kFinishing;
    const auto shared = std::make_shared<HttpResponse>(std::move(response));
    // Bounded by the number of connections.
    http_.workers.add(client_, [shared, accepted, budget = http_.options.memory_budget,
                                inbox = thread_.inbox, weak = this->weak_from_this()] {
      try {
        *shared = finish_response(std::move(*shared), accepted, budget);
      } catch (...) {
        *shared = error_response(caught_error());
      }
      post_to(*inbox, [shared, weak] {
        const auto self = weak.lock();
        if (!self || self->phase_ != Phase::kFinishing) return;
        self->guarded([&] { self->respond(std::move(*shared)); });
      });
      return false;
    });
  }

  // Whether the budget has that many bytes for the response; answers 503 where it has not.
  bool take_memory(size_t bytes) {
    try {
      if (bytes > lease_.bytes()) lease_.grow(bytes - lease_.bytes());
      return true;
    } catch (const Error& error) {
      respond(error_response(error));
      return false;
    }
  }

  // Answers without reading the rest of the request; so the connection cannot be used further.
  void refuse(HttpResponse response) {
    keeps_alive_ = false;
    lingers_ = true;
    respond(std::move(response));
  }
  void refuse(int status, std::string_view message) { refuse(error_response(status, message)); }

  void respond(HttpResponse response) {
    if (response.status == 503) response.headers.emplace_back("Retry-After", "1");
    const size_t bytes = body_bytes(response),
                 taken = response.memory ? response.memory->bytes() : 0;
    if (bytes > std::max(kSmallResponse, taken) && !take_memory(bytes - taken + kHeadBytes)) return;
    response_ = std::move(response);
    if (shared_.draining || (is_at_end_ && !reader_.has_input())) keeps_alive_ = false;
    head_ = response_head(response_, bytes, keeps_alive_);
    phase_ = Phase::kWriting;
    progress_ = http_.options.clock();
    set_deadline(http_.options.read_timeout);
    if (is_head_only_ || bytes <= kSmallResponse) {
      if (!is_head_only_) append_body_to_head();
      if (!reader_.has_input() && write_at_once()) return on_written({});
    }
    // What is not written at once waits for the client.
    if (bytes <= kSmallResponse && !lease_.try_grow(head_.size())) return close();
    written_ = 0;
    asio::async_write(
        stream_, pieces(),
        [this](error_code error, size_t written) -> size_t {
          extend_deadline(written - written_);
          written_ = written;
          return error ? 0 : kWriteBytes;
        },
        [self = this->shared_from_this()](error_code error, size_t) {
          self->guarded([&] { self->on_written(error); });
        });
  }

  void append_body_to_head() {
    head_ += response_.body;
    for (const auto& tensor : response_.tensors)
      head_.append(reinterpret_cast<const char*>(tensor.data()), tensor.size());
    response_ = {};
  }

  // Whether the socket takes all of head_ now, which saves a round through the event loop. What it
  // took is removed; an error shows again at the next write.
  bool write_at_once() {
    if constexpr (std::is_same_v<Stream, TcpSocket>) {
      error_code error;
      head_.erase(0, stream_.write_some(asio::buffer(head_), error));
      return head_.empty();
    }
    return false;
  }

  std::vector<asio::const_buffer> pieces() const {
    if (is_head_only_) return {asio::buffer(head_)};
    std::vector<asio::const_buffer> pieces = {asio::buffer(head_), asio::buffer(response_.body)};
    for (const auto& tensor : response_.tensors) pieces.emplace_back(tensor.data(), tensor.size());
    return pieces;
  }

  void on_written(error_code error) {
    if (phase_ == Phase::kClosed) return;
    response_ = {};
    lease_.shrink(lease_.bytes());
    if (error) return close();
    if (keeps_alive_) return next_request();
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      if (!lingers_ && !is_reading_) {
        set_deadline(kLingering);
        return stream_.async_shutdown(
            [self = this->shared_from_this()](error_code) { self->close(); });
      }
    }
    linger();
  }

  // Closing with unread input would reset the connection, and with it the answer on its way.
  void linger() {
    if (is_at_end_) return close();
    error_code error;
    socket_of(stream_).shutdown(TcpSocket::shutdown_send, error);
    if (error) return close();
    phase_ = Phase::kLingering;
    reader_.drop_input();
    set_deadline(kLingering);
    read();
  }

  void set_deadline(std::chrono::milliseconds patience) {
    deadline_ = http_.options.clock() + patience;
  }

  // Extends the deadline for bytes that went through: each 64 KiB add a second, but never more
  // than the timeout from now on. So what trickles is cut off, and so is what stalls after a
  // fast beginning.
  void extend_deadline(size_t bytes) {
    const auto added = std::chrono::microseconds(bytes * 1'000'000 / kSlowestBytesPerSecond);
    const Clock::time_point now = http_.options.clock();
    if (bytes > 0) progress_ = now;
    deadline_ = std::min(deadline_ + added, now + http_.options.read_timeout);
  }

  HttpShared& http_;
  const ClientKey client_;
  const bool is_local_;
  Phase phase_ = Phase::kIdle;
  Clock::time_point idle_since_ = http_.options.clock();
  Clock::time_point progress_ = idle_since_;  // when bytes of a body or an answer last passed
  Clock::time_point deadline_ = idle_since_ + http_.options.read_timeout;  // of the handshake

  HttpRequestReader reader_;
  bool is_reading_ = false;   // into reader_
  bool is_at_end_ = false;    // the client sends nothing more
  bool is_watching_ = false;  // for a reset

  // The request under way.
  bool is_head_only_ = false;
  bool keeps_alive_ = true;
  bool lingers_ = false;
  ContentEncoding encoding_ = ContentEncoding::kIdentity;
  size_t max_body_ = 0;
  std::optional<size_t> json_bytes_;
  uint64_t request_number_ = 0;
  std::shared_ptr<std::atomic<bool>> cancelled_;

  HttpResponse response_;
  std::string head_;
  size_t written_ = 0;
  MemoryBudget::Lease lease_;  // for the response
};

}  // namespace

std::shared_ptr<NetConnection> make_http_connection(HttpShared& http, NetShared& shared,
                                                    NetThread& thread, TcpSocket socket,
                                                    bool refused) {
  if (shared.tls)
    return std::make_shared<Connection<TlsStream>>(http, shared, thread, refused, std::move(socket),
                                                   *shared.tls);
  return std::make_shared<Connection<TcpSocket>>(http, shared, thread, refused, std::move(socket));
}

}  // namespace emblem
