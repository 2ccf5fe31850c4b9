#include "serve/http/connection.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <charconv>
#include <cstring>
#include <limits>

#include "core/caught_error.h"
#include "core/text.h"
#include "serve/http/body.h"
#include "serve/http/head.h"
#include "serve/protocol/token.h"

namespace emblem {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using TlsStream = asio::ssl::stream<TcpSocket>;

constexpr size_t kReadBytes = 16384;
constexpr size_t kSlowestBytesPerSecond = 65536;
constexpr size_t kSmallestToCompress = 1024;
constexpr size_t kCopiedResponse = 16384;  // up to here one write is faster than many pieces
constexpr std::chrono::milliseconds kLingering = std::chrono::seconds(1);
constexpr Clock::time_point kNever = Clock::time_point::max();

TcpSocket& socket_of(TcpSocket& socket) { return socket; }
TcpSocket& socket_of(TlsStream& stream) { return stream.next_layer(); }

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

std::optional<size_t> parse_length(std::string_view text) {
  size_t length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return length;
}

template <class Stream>
class Connection final : public NetConnection,
                         public std::enable_shared_from_this<Connection<Stream>> {
 public:
  template <class... More>
  Connection(HttpShared& http, NetShared& shared, NetThread& thread, bool refused, TcpSocket socket,
             More&... more)
      : NetConnection(shared, thread, refused),
        http_(http),
        stream_(std::move(socket), more...),
        buffer_(http.options.max_header_bytes + kReadBytes) {}

  void start() override {
    guarded([this] { begin(); });
  }

  void begin() {
    error_code ignored;
    socket_of(stream_).set_option(tcp::no_delay(true), ignored);
    socket_of(stream_).non_blocking(true, ignored);
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      set_deadline(http_.options.read_timeout);
      stream_.async_handshake(asio::ssl::stream_base::server,
                              [self = this->shared_from_this()](error_code error) {
                                if (error) return self->close();
                                self->guarded([&] { self->next_request(); });
                              });
    } else {
      next_request();
    }
  }

  void drain() override {
    if (phase_ == Phase::kIdle) close();
  }

  void close() override {
    if (phase_ == Phase::kClosed) return;
    phase_ = Phase::kClosed;
    if (cancelled_) *cancelled_ = true;
    error_code ignored;
    socket_of(stream_).close(ignored);
    leave(this->shared_from_this());
  }

  std::optional<Clock::time_point> idle_since() const override {
    return phase_ == Phase::kIdle ? std::optional(idle_since_) : std::nullopt;
  }

  void check_deadline(Clock::time_point now) override {
    if (now < deadline_) return;
    guarded([this] {
      if (phase_ == Phase::kHeader || phase_ == Phase::kBody)
        return refuse(408, "the request did not arrive in time");
      close();
    });
  }

 private:
  enum class Phase { kIdle, kHeader, kBody, kHandling, kWriting, kLingering, kClosed };

  // Around everything that the event loop calls: an exception there would leave the connection
  // open with nothing under way.
  template <class Act>
  void guarded(Act&& act) noexcept {
    try {
      act();
    } catch (...) {
      log_caught("an HTTP connection is closed");
      close();
    }
  }

  // ---- reading ----

  void next_request() {
    if (is_at_end_ && buffer_.size() == 0) return close();
    if (shared_.draining && buffer_.size() == 0) return close();
    cancelled_.reset();
    body_ = {};
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(http_.options.max_header_bytes));
    parser_->body_limit(std::numeric_limits<uint64_t>::max());
    chunked_parser_.reset();
    is_head_only_ = false;
    accepted_ = HttpEncoding::kIdentity;
    phase_ = Phase::kIdle;
    idle_since_ = http_.options.clock();
    if (buffer_.size() > 0) return parse_header();
    set_deadline(is_refused_ ? http_.options.read_timeout : http_.options.idle_timeout);
    read();
  }

  // Fills buffer_; on_read takes what came. Only one read is under way at a time, and one
  // that began while a request was handled brings the next one.
  void read() {
    if (is_reading_) return;
    const size_t room = buffer_.max_size() - buffer_.size();
    is_reading_ = true;
    stream_.async_read_some(buffer_.prepare(std::min(kReadBytes, room)),
                            [self = this->shared_from_this()](error_code error, size_t bytes) {
                              self->is_reading_ = false;
                              self->guarded([&] { self->on_read(error, bytes); });
                            });
  }

  void on_read(error_code error, size_t bytes) {
    if (phase_ == Phase::kClosed) return;
    if (phase_ == Phase::kLingering) {
      if (error) return close();
      return read();  // what was read is not committed: it is thrown away
    }
    if (error) {
      is_at_end_ = true;
      if (phase_ == Phase::kHandling && cancelled_) *cancelled_ = true;
      if (phase_ == Phase::kIdle || phase_ == Phase::kHeader || phase_ == Phase::kBody) close();
      return;
    }
    buffer_.commit(bytes);
    if (phase_ == Phase::kIdle || phase_ == Phase::kHeader) return parse_header();
    if (phase_ == Phase::kBody) return parse_chunks();
  }

  void parse_header() {
    if (phase_ == Phase::kIdle) {
      phase_ = Phase::kHeader;
      set_deadline(http_.options.read_timeout);
    }
    error_code error;
    const size_t used = parser_->put(buffer_.data(), error);
    buffer_.consume(used);
    if (parser_->is_header_done()) return on_header();
    if (error == http::error::header_limit || buffer_.size() >= buffer_.max_size())
      return refuse(431,
                    cat("the header has more than ", http_.options.max_header_bytes, " bytes"));
    if (error && error != http::error::need_more)
      return refuse(400, cat("malformed HTTP: ", error.message()));
    read();
  }

  void on_header() {
    const auto& request = parser_->get();
    const HttpServerOptions& options = http_.options;
    is_head_only_ = request.method() == http::verb::head;
    keeps_alive_ = parser_->keep_alive();
    accepted_ = choose_encoding(view(request[http::field::accept_encoding]));
    if (is_refused_)
      return refuse(503, cat("the server has its ", options.max_connections,
                             " connections; try again later"));
    if (request.version() == 11 && request.count(http::field::host) == 0)
      return refuse(400, "the request has no Host header");
    if (!options.bearer_token.empty() && !is_open(view(request.target())) &&
        !carries_token(view(request[http::field::authorization]), options.bearer_token))
      return refuse(401, "the request needs the server's token: \"Authorization: Bearer TOKEN\"");
    const auto encoding = encoding_from_name(view(request[http::field::content_encoding]));
    if (!encoding) return refuse(415, "Content-Encoding must be gzip, deflate or identity");
    encoding_ = *encoding;
    json_bytes_.reset();
    if (const auto found = request.find("Inference-Header-Content-Length");
        found != request.end()) {
      json_bytes_ = parse_length(view(found->value()));
      if (!json_bytes_)
        return refuse(400, "Inference-Header-Content-Length is not a number of bytes");
    }
    begin_body();
  }

  bool is_open(std::string_view target) const {
    const auto& open = http_.options.open_paths;
    const std::string_view path = target.substr(0, target.find('?'));
    return std::find(open.begin(), open.end(), path) != open.end();
  }

  void begin_body() {
    const std::string_view expected = view(parser_->get()[http::field::expect]);
    const bool waits = beast::iequals({expected.data(), expected.size()}, "100-continue");
    if (!expected.empty() && !waits) return refuse(417, "only Expect: 100-continue is understood");
    const size_t limit = http_.options.max_body_bytes;
    const uint64_t length = parser_->content_length().value_or(0);
    if (length > limit) return refuse_body();
    phase_ = Phase::kBody;
    body_read_ = 0;
    body_began_ = http_.options.clock();
    if (parser_->chunked()) {
      chunked_parser_.emplace(std::move(*parser_));
      chunked_parser_->body_limit(limit);
      chunked_parser_->eager(true);
      return waits ? send_continue() : parse_chunks();
    }
    body_ = allocate_body(length, aligned_at());
    body_read_ = std::min<size_t>(length, buffer_.size());
    if (body_read_ > 0) std::memcpy(body_.bytes.data(), buffer_.data().data(), body_read_);
    buffer_.consume(body_read_);
    if (waits && body_read_ < length) return send_continue();
    read_body();
  }

  // Where the first tensor begins, if the body is not compressed.
  size_t aligned_at() const {
    return encoding_ == HttpEncoding::kIdentity ? json_bytes_.value_or(0) : 0;
  }

  void send_continue() {
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    asio::async_write(
        stream_, asio::buffer(kContinue.data(), kContinue.size()),
        [self = this->shared_from_this()](error_code error, size_t) {
          if (self->phase_ != Phase::kBody) return;
          if (error) return self->close();
          self->guarded([&] { self->chunked_parser_ ? self->parse_chunks() : self->read_body(); });
        });
  }

  void read_body() {
    if (body_read_ == body_.bytes.size())
      return handle(view(parser_->get().method_string()), view(parser_->get().target()));
    deadline_ = body_began_ + transfer_time(body_read_);
    const std::span<std::byte> rest = body_.bytes.subspan(body_read_);
    stream_.async_read_some(
        asio::buffer(rest.data(), rest.size()),
        [self = this->shared_from_this(), keep = body_.memory](error_code error, size_t bytes) {
          if (self->phase_ != Phase::kBody) return;
          if (error) return self->close();
          self->body_read_ += bytes;
          self->guarded([&] { self->read_body(); });
        });
  }

  void parse_chunks() {
    error_code error;
    if (buffer_.size() > 0) {
      const size_t used = chunked_parser_->put(buffer_.data(), error);
      buffer_.consume(used);
      body_read_ += used;
    }
    if (error == http::error::body_limit) return refuse_body();
    if (error && error != http::error::need_more)
      return refuse(400, cat("malformed chunks: ", error.message()));
    if (!chunked_parser_->is_done()) {
      if (buffer_.size() >= buffer_.max_size()) return refuse(400, "a chunk's header is too long");
      deadline_ = body_began_ + transfer_time(body_read_);
      return read();
    }
    const std::string& text = chunked_parser_->get().body();
    body_ = allocate_body(text.size(), aligned_at());
    if (!text.empty()) std::memcpy(body_.bytes.data(), text.data(), text.size());
    handle(view(chunked_parser_->get().method_string()), view(chunked_parser_->get().target()));
  }

  // ---- answering ----

  void handle(std::string_view method, std::string_view target) {
    if (encoding_ != HttpEncoding::kIdentity && !body_.bytes.empty() && !expand()) return;
    phase_ = Phase::kHandling;
    deadline_ = kNever;
    cancelled_ = std::make_shared<std::atomic<bool>>(false);
    ++request_number_;
    HttpRequest request;
    request.method = is_head_only_ ? "GET" : method;
    request.target = target;
    request.body = body_.bytes;
    request.json_bytes = json_bytes_;
    request.memory = std::move(body_.memory);
    request.cancelled = cancelled_;
    body_ = {};
    try {
      http_.handler(std::move(request), make_reply());
    } catch (...) {
      if (phase_ == Phase::kHandling) respond(error_response(caught_error()));
    }
    // Notices a client that goes away while its request waits.
    if (phase_ == Phase::kHandling && buffer_.size() == 0 && !is_at_end_) read();
  }

  bool expand() {
    try {
      std::optional<HttpBody> whole = expand_body(
          body_.bytes, encoding_, http_.options.max_body_bytes, json_bytes_.value_or(0));
      if (whole) {
        body_ = std::move(*whole);
        return true;
      }
      refuse_body();
    } catch (...) {
      respond(error_response(caught_error()));
    }
    return false;
  }

  HttpReply make_reply() {
    return [weak = this->weak_from_this(), number = request_number_, inbox = thread_.inbox,
            home = thread_.thread.get_id()](HttpResponse response) {
      if (std::this_thread::get_id() == home) {
        if (const auto self = weak.lock()) self->on_reply(number, std::move(response));
        return;
      }
      std::lock_guard lock(inbox->mutex);
      if (!inbox->context) return;
      asio::post(*inbox->context, [weak, number, response = std::move(response)]() mutable {
        if (const auto self = weak.lock()) self->on_reply(number, std::move(response));
      });
    };
  }

  void on_reply(uint64_t number, HttpResponse response) {
    if (phase_ != Phase::kHandling || number != request_number_) return;
    guarded([&] { respond(response.deferred ? response.deferred() : std::move(response)); });
  }

  // Answers without reading the rest of the request; so the connection cannot be used further.
  void refuse(int status, std::string_view message) {
    keeps_alive_ = false;
    lingers_ = true;
    HttpResponse response = error_response(status, message);
    if (status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
    respond(std::move(response));
  }

  void refuse_body() {
    refuse(413, cat("the body has more than ", http_.options.max_body_bytes, " bytes"));
  }

  void respond(HttpResponse response) {
    response_ = std::move(response);
    if (accepted_ != HttpEncoding::kIdentity && body_bytes(response_) >= kSmallestToCompress)
      compress_response(response_, accepted_);
    const size_t bytes = body_bytes(response_);
    if (shared_.draining) keeps_alive_ = false;
    head_ = response_head(response_, bytes, keeps_alive_);
    phase_ = Phase::kWriting;
    set_deadline(transfer_time(bytes));
    if (is_head_only_ || bytes <= kCopiedResponse) {
      if (!is_head_only_) append_body_to_head();
      if (buffer_.size() == 0 && write_at_once()) return on_written({});
    }
    asio::async_write(stream_, pieces(),
                      [self = this->shared_from_this()](error_code error, size_t) {
                        self->guarded([&] { self->on_written(error); });
                      });
  }

  static size_t body_bytes(const HttpResponse& response) {
    size_t bytes = response.body.size();
    for (const auto& tensor : response.tensors) bytes += tensor.size();
    return bytes;
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
    if (!lingers_ || is_at_end_) return close();
    error_code error;
    socket_of(stream_).shutdown(TcpSocket::shutdown_send, error);
    if (error) return close();
    phase_ = Phase::kLingering;
    buffer_.consume(buffer_.size());
    set_deadline(kLingering);
    read();
  }

  void set_deadline(std::chrono::milliseconds patience) {
    deadline_ = http_.options.clock() + patience;
  }

  // How long that many bytes may take. Bodies are held to it as they come, so that one that
  // trickles in is cut off whatever length it claims.
  std::chrono::milliseconds transfer_time(size_t bytes) const {
    return http_.options.read_timeout +
           std::chrono::milliseconds(bytes * 1000 / kSlowestBytesPerSecond);
  }

  HttpShared& http_;
  Stream stream_;
  Phase phase_ = Phase::kIdle;
  Clock::time_point idle_since_ = http_.options.clock();
  Clock::time_point deadline_ = kNever;

  beast::flat_buffer buffer_;  // read, and not yet understood
  bool is_reading_ = false;    // into buffer_
  bool is_at_end_ = false;     // the client sends nothing more

  // The request under way.
  std::optional<http::request_parser<http::empty_body>> parser_;
  std::optional<http::request_parser<http::string_body>> chunked_parser_;
  bool is_head_only_ = false;
  bool keeps_alive_ = true;
  bool lingers_ = false;
  HttpEncoding encoding_ = HttpEncoding::kIdentity;
  HttpEncoding accepted_ = HttpEncoding::kIdentity;
  std::optional<size_t> json_bytes_;
  HttpBody body_;
  size_t body_read_ = 0;
  Clock::time_point body_began_;
  uint64_t request_number_ = 0;
  std::shared_ptr<std::atomic<bool>> cancelled_;

  HttpResponse response_;
  std::string head_;
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
