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

#include "serve/net/fair_queue.h"
#include "serve/net/options.h"

namespace emblem {

class NetConnection;

// Bound to the one kind of executor there is here, so that handlers run without a detour.
using TcpSocket =
    boost::asio::basic_stream_socket<boost::asio::ip::tcp, boost::asio::io_context::executor_type>;

// Whether the other side is on this machine: its address is a loopback one.
bool is_local_peer(const TcpSocket& socket);
// The host by its address; of IPv6 by its network of 64 bits, which one client may have whole.
// `connection` tells its connections apart.
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
  // Since when nothing has been under way; nullopt while something is.
  virtual std::optional<std::chrono::steady_clock::time_point> idle_since() const = 0;

 protected:
  // Once, by close(); the caller holds a reference to the connection.
  void leave(const std::shared_ptr<NetConnection>& self);

  NetShared& shared_;
  NetThread& thread_;
  const bool is_refused_;
};

using MakeConnection = std::function<std::shared_ptr<NetConnection>(
    NetShared& shared, NetThread& thread, TcpSocket socket, bool refused)>;

}  // namespace emblem
