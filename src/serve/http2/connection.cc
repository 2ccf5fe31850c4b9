#include "serve/http2/connection.h"

#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <vector>

namespace emblem {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr size_t kReadBytes = 16384;
constexpr size_t kWriteBytes = 65536;

Http2Limits limits_of(Http2Limits limits, const NetOptions& options) {
  limits.timeout = options.read_timeout;
  limits.clock = options.clock;
  return limits;
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
  Connection(const Http2Limits& limits, const Http2Open& open, NetShared& shared, NetThread& thread,
             bool refused, TcpSocket socket, More&... more)
      : Base("an HTTP/2 connection is closed", shared, thread, refused, std::move(socket), more...),
        peer_{Http2Loop(thread), thread.context, client_of(socket_of(stream_), this),
              is_local_peer(socket_of(stream_)), refused},
        session_(
            std::in_place, limits_of(limits, shared.options),
            [this, &open](Http2Stream& stream, Http2Headers headers) {
              return open(peer_, stream, std::move(headers));
            },
            [this] { flush_soon(); }),
        input_(kReadBytes) {
    opened_ = heard_ = idle_since_ = shared.options.clock();
  }

  void drain() override {
    if (is_closed_) return;
    if (!is_ready_) return close();
    guarded([this] {
      is_ending_ = true;
      session_->drain();
      flush();
    });
  }

  void close() override {
    if (is_closed_) return;
    is_closed_ = true;
    const auto self = this->shared_from_this();
    if (!is_in_session_) session_.reset();  // otherwise when it returns
    error_code ignored;
    socket_of(stream_).close(ignored);
    this->leave(self);
  }

  std::optional<Clock::time_point> idle_since() const override {
    if (is_closed_ || session_->is_busy()) return std::nullopt;
    return std::max(idle_since_, heard_);
  }

  void check_deadline(Clock::time_point now) override {
    if (is_closed_) return;
    const NetOptions& options = shared_.options;
    if (is_writing_ && now > writing_since_ + options.read_timeout) return close();
    const bool may_wait = session_->has_begun() && !is_refused_;
    if (!may_wait && now > opened_ + options.read_timeout) return close();
    guarded([&] {
      if (!in_session([&] { return session_->tick(now); })) return close();
      if (is_closed_) return;
      if (session_->is_busy()) idle_since_ = now;
      check_silence(now);
      flush();
    });
  }

 private:
  // The session must not be deleted, nor asked for output, by what it calls.
  template <class Act>
  auto in_session(Act&& act) {
    is_in_session_ = true;
    struct Leave {
      Connection& of;
      ~Leave() {
        of.is_in_session_ = false;
        if (of.is_closed_) of.session_.reset();
      }
    } leave{*this};
    return act();
  }

  // A connection without streams ends; one with streams is asked whether it still lives.
  void check_silence(Clock::time_point now) {
    if (now <= heard_ + shared_.options.idle_timeout) return;
    if (session_->streams() == 0) return end();
    if (pinged_ <= heard_) {
      session_->ping();
      pinged_ = now;
    } else if (now > pinged_ + shared_.options.read_timeout) {
      close();
    }
  }

  void end() {
    if (is_ending_) return;
    is_ending_ = true;
    session_->go_away();
  }

  void begin() override {
    if (is_closed_) return;
    is_ready_ = true;
    flush();
    read();
  }

  // ---- reading ----

  void read() {
    if (is_closed_ || is_reading_ || is_writing_) return;
    is_reading_ = true;
    stream_.async_read_some(asio::buffer(input_),
                            [self = this->shared_from_this()](error_code error, size_t bytes) {
                              self->is_reading_ = false;
                              self->guarded([&] { self->on_read(error, bytes); });
                            });
  }

  void on_read(error_code error, size_t bytes) {
    if (is_closed_) return;
    if (error) return close();
    heard_ = shared_.options.clock();
    const bool continues = in_session(
        [&] { return session_->receive(std::as_bytes(std::span(input_.data(), bytes))); });
    if (is_closed_) return;
    if (is_refused_ && session_->streams() > 0) end();
    if (!continues) is_over_ = true;
    flush();
    read();
  }

  // ---- writing ----

  // Several answers become one write.
  void flush_soon() {
    if (is_in_session_ || is_flush_posted_ || is_writing_ || is_closed_) return;
    is_flush_posted_ = true;
    asio::post(thread_.context, [weak = this->weak_from_this()] {
      const auto self = weak.lock();
      if (!self) return;
      self->is_flush_posted_ = false;
      self->guarded([&] { self->flush(); });
    });
  }

  void flush() {
    if (!is_ready_) return;
    while (!is_closed_ && !is_writing_) {
      in_session([this] { session_->take_output(output_, kWriteBytes); });
      if (is_closed_) return;
      if (output_.empty()) {
        if (output_.capacity() > kReadBytes) output_.shrink_to_fit();
        if (is_over_ || session_->is_over() || (is_ending_ && session_->streams() == 0)) close();
        return;
      }
      if (!write_at_once()) return write();
    }
  }

  // Whether the socket takes all of output_ now, which saves a round through the event loop. What
  // it took is removed; an error shows again at the next write.
  bool write_at_once() {
    if constexpr (std::is_same_v<Stream, TcpSocket>) {
      error_code error;
      output_.erase(0, stream_.write_some(asio::buffer(output_), error));
      return output_.empty();
    }
    return false;
  }

  void write() {
    is_writing_ = true;
    writing_since_ = shared_.options.clock();
    asio::async_write(stream_, asio::buffer(output_),
                      [self = this->shared_from_this()](error_code error, size_t) {
                        self->is_writing_ = false;
                        if (self->is_closed_) return;
                        if (error) return self->close();
                        self->output_.clear();
                        self->guarded([&] {
                          self->flush();
                          self->read();
                        });
                      });
  }

  const Http2Peer peer_;
  std::optional<Http2Session> session_;  // until the connection is closed
  std::vector<char> input_;
  std::string output_;
  bool is_reading_ = false, is_writing_ = false, is_flush_posted_ = false, is_in_session_ = false;
  bool is_ready_ = false;   // after the handshake of TLS
  bool is_ending_ = false;  // closes when its streams are over
  bool is_over_ = false;    // closes when its output is sent
  bool is_closed_ = false;
  Clock::time_point heard_;  // when the client last sent something
  Clock::time_point opened_, pinged_{}, writing_since_{};
  Clock::time_point idle_since_;  // when it was last seen to be busy
};

}  // namespace

void Http2Loop::run(std::function<void()> act) const {
  if (is_here()) return act();
  std::lock_guard lock(inbox_->mutex);
  if (inbox_->context != nullptr) asio::post(*inbox_->context, std::move(act));
}

std::shared_ptr<NetConnection> make_http2_connection(const Http2Limits& limits,
                                                     const Http2Open& open, NetShared& shared,
                                                     NetThread& thread, TcpSocket socket,
                                                     bool refused) {
  if (shared.tls)
    return std::make_shared<Connection<TlsStream>>(limits, open, shared, thread, refused,
                                                   std::move(socket), *shared.tls);
  return std::make_shared<Connection<TcpSocket>>(limits, open, shared, thread, refused,
                                                 std::move(socket));
}

}  // namespace emblem
