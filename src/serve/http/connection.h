// serve/http/connection.h - one connection of an HttpServer; for http_server.cc alone.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_set>

#include "serve/http/server.h"

namespace emblem {

class HttpConnection;

// Bound to the one kind of executor there is here, so that handlers run without a detour.
using TcpSocket =
    boost::asio::basic_stream_socket<boost::asio::ip::tcp, boost::asio::io_context::executor_type>;

// Where other threads leave their replies. Outlives the server as long as a reply may come.
struct ReplyInbox {
  std::mutex mutex;
  boost::asio::io_context* context = nullptr;  // null: the server is gone
};

// A thread, its event loop, and the connections that only it touches.
struct HttpThread {
  boost::asio::io_context context{1};
  std::thread thread;
  std::shared_ptr<ReplyInbox> inbox = std::make_shared<ReplyInbox>();
  std::unordered_set<std::shared_ptr<HttpConnection>> connections;
};

// What all connections of a server have in common.
struct HttpShared {
  HttpServerOptions options;
  HttpHandler handler;
  std::unique_ptr<boost::asio::ssl::context> tls;
  std::atomic<bool> draining = false;
  std::atomic<size_t> open = 0;     // connections
  std::atomic<size_t> refused = 0;  // of them: those that only get a 503
  std::mutex mutex;
  std::condition_variable closed;
};

// All methods are called on the connection's thread.
class HttpConnection {
 public:
  virtual ~HttpConnection() = default;
  virtual void start() = 0;
  // Closes now, or after the answer to what is under way.
  virtual void drain() = 0;
  // Closes now and cancels what is under way.
  virtual void close() = 0;
  virtual void check_deadline(std::chrono::steady_clock::time_point now) = 0;
};

// With TLS when the server has it. `refused`: answers its first request with 503, then closes.
std::shared_ptr<HttpConnection> make_http_connection(HttpShared& shared, HttpThread& thread,
                                                     TcpSocket socket, bool refused);

}  // namespace emblem
