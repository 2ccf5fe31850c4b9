// serve/net/connection.h - connections of a NetServer, and what they share. Includes Asio: only for
// the .cc files of protocols.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_set>

#include "core/system/caught_error.h"
#include "serve/net/fair_queue.h"
#include "serve/net/options.h"

namespace emblem {

class NetConnection;

// Bound to the one kind of executor there is here, so that handlers run without a detour.
using TcpSocket =
    boost::asio::basic_stream_socket<boost::asio::ip::tcp, boost::asio::io_context::executor_type>;

// Whether the other side is on this machine: its address is a loopback one.
bool is_local_peer(const TcpSocket& socket);
// The host by its address (IPv6: by its network of 64 bits, which one client may have whole).
// `connection` distinguishes its connections.
ClientKey client_of(const TcpSocket& socket, const void* connection);

using TlsStream = boost::asio::ssl::stream<TcpSocket>;
inline TcpSocket& socket_of(TcpSocket& socket) { return socket; }
inline TcpSocket& socket_of(TlsStream& stream) { return stream.next_layer(); }

// Where other threads leave their replies. Outlives the server as long as a reply may come.
struct ReplyInbox {
  std::mutex mutex;
  boost::asio::io_context* context = nullptr;  // null: the server is gone
};

// A thread, its event loop, and the connections that only it touches.
struct NetThread {
  boost::asio::io_context context{1};
  std::thread thread;
  std::shared_ptr<ReplyInbox> inbox = std::make_shared<ReplyInbox>();
  std::unordered_set<std::shared_ptr<NetConnection>> connections;
};

// What all connections of a server have in common.
struct NetShared {
  NetOptions options;
  std::unique_ptr<boost::asio::ssl::context> tls;  // null: none
  std::atomic<bool> draining = false;
  std::atomic<size_t> open = 0;     // connections
  std::atomic<size_t> refused = 0;  // connections that are only told that they are refused
  std::mutex mutex;
  std::condition_variable closed;
};

// All methods are called on the connection's thread.
class NetConnection {
 public:
  // `refused`: there are too many connections, and this one is only there to be told.
  NetConnection(NetShared& shared, NetThread& thread, bool refused)
      : shared_(shared), thread_(thread), is_refused_(refused) {}
  virtual ~NetConnection() = default;

  virtual void start() = 0;
  // Closes now, or after the answers to what is under way.
  virtual void drain() = 0;
  // Closes now and cancels what is under way.
  virtual void close() = 0;
  virtual void check_deadline(std::chrono::steady_clock::time_point now) = 0;
  // Since when the server has waited for the client; nullopt while it works for it.
  virtual std::optional<std::chrono::steady_clock::time_point> idle_since() const = 0;

  bool is_refused() const { return is_refused_; }

 protected:
  // Once, by close(); the caller holds a reference to the connection.
  void leave(const std::shared_ptr<NetConnection>& self);

  NetShared& shared_;
  NetThread& thread_;
  const bool is_refused_;
};

// A connection over `Stream`, a TcpSocket or a TlsStream; Derived is its class.
template <class Derived, class Stream>
class StreamConnection : public NetConnection, public std::enable_shared_from_this<Derived> {
 public:
  // `failure` is logged with what an exception says: "an HTTP connection is closed". `more` is for
  // the stream.
  template <class... More>
  StreamConnection(const char* failure, NetShared& shared, NetThread& thread, bool refused,
                   TcpSocket socket, More&... more)
      : NetConnection(shared, thread, refused),
        stream_(std::move(socket), more...),
        failure_(failure) {}

  void start() final {
    guarded([this] {
      boost::system::error_code ignored;
      socket_of(stream_).set_option(boost::asio::ip::tcp::no_delay(true), ignored);
      socket_of(stream_).non_blocking(true, ignored);
      if constexpr (std::is_same_v<Stream, TlsStream>) {
        stream_.async_handshake(boost::asio::ssl::stream_base::server,
                                [this, self = this->shared_from_this()](auto error) {
                                  if (error) return close();
                                  guarded([this] { begin(); });
                                });
      } else {
        begin();
      }
    });
  }

 protected:
  // After the handshake of TLS, if any.
  virtual void begin() = 0;

  // Around everything that the event loop calls: an exception there would leave the connection
  // open with nothing under way.
  template <class Act>
  void guarded(Act&& act) noexcept {
    try {
      act();
    } catch (...) {
      log_caught(failure_);
      close();
    }
  }

  Stream stream_;

 private:
  const char* failure_;
};

using MakeConnection = std::function<std::shared_ptr<NetConnection>(
    NetShared& shared, NetThread& thread, TcpSocket socket, bool refused)>;

}  // namespace emblem
