#include "serve/http/server.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>

#include "core/caught_error.h"
#include "core/start_thread.h"
#include "serve/http/connection.h"

namespace emblem {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// Refused connections wait for their 503 next to the others; above this number they are closed.
constexpr size_t kMostRefused = 64;
constexpr std::chrono::milliseconds kAcceptPause{100};

void check(const HttpServerOptions& options) {
  EMBLEM_REQUIRE(options.threads > 0, "an HTTP server needs at least one thread, not ",
                 options.threads);
  EMBLEM_REQUIRE(options.max_header_bytes >= 256 && options.max_header_bytes <= size_t{16} << 20,
                 "the limit of header bytes must be between 256 and 16 MiB, not ",
                 options.max_header_bytes);
  EMBLEM_REQUIRE(options.max_connections > 0, "an HTTP server needs at least one connection");
  EMBLEM_REQUIRE(options.idle_timeout.count() > 0 && options.read_timeout.count() > 0,
                 "the timeouts of an HTTP server must be positive");
  EMBLEM_REQUIRE(options.tls_certificate.empty() == options.tls_key.empty(),
                 "TLS needs both a certificate and its key");
}

std::unique_ptr<asio::ssl::context> make_tls(const HttpServerOptions& options) {
  if (options.tls_certificate.empty()) return nullptr;
  using Tls = asio::ssl::context;
  auto tls = std::make_unique<Tls>(Tls::tls_server);
  tls->set_options(Tls::default_workarounds | Tls::no_sslv2 | Tls::no_sslv3 | Tls::no_tlsv1 |
                   Tls::no_tlsv1_1);
  error_code error;
  tls->use_certificate_chain_file(options.tls_certificate, error);
  EMBLEM_REQUIRE(!error, "the TLS certificate ", options.tls_certificate,
                 " cannot be used: ", error.message());
  tls->use_private_key_file(options.tls_key, Tls::pem, error);
  EMBLEM_REQUIRE(!error, "the TLS key ", options.tls_key, " cannot be used with the certificate ",
                 options.tls_certificate, ": ", error.message());
  return tls;
}

tcp::acceptor listen_on(asio::io_context& context, const std::string& address, uint16_t port) {
  try {
    const tcp::endpoint endpoint =
        *tcp::resolver(context).resolve(address, std::to_string(port)).begin();
    return tcp::acceptor(context, endpoint, /*reuse_addr=*/true);
  } catch (const boost::system::system_error& error) {
    throw Error(ErrorCode::kUnavailable,
                cat("cannot listen on ", address, " port ", port, ": ", error.code().message()));
  }
}

}  // namespace

void check_port(const std::string& address, uint16_t port) {
  asio::io_context context;
  if (port != 0) listen_on(context, address, port);
}

struct HttpServer::State {
  State(HttpServerOptions options, HttpHandler handler) {
    check(options);
    shared.tls = make_tls(options);
    shared.options = std::move(options);
    shared.handler = std::move(handler);
    tick = std::clamp(std::min(shared.options.idle_timeout, shared.options.read_timeout) / 4,
                      std::chrono::milliseconds(5), std::chrono::milliseconds(1000));
    for (int i = 0; i < shared.options.threads; ++i)
      threads.push_back(std::make_unique<HttpThread>());
    acceptor.emplace(listen_on(threads[0]->context, shared.options.address, shared.options.port));
    pause.emplace(threads[0]->context);
    port = acceptor->local_endpoint().port();
    try {
      for (auto& one : threads) {
        one->inbox->context = &one->context;
        HttpThread& thread = *one;
        thread.thread = start_thread("HTTP connections", [this, &thread] { run(thread); });
      }
      asio::post(threads[0]->context, [this] { accept(); });
    } catch (...) {
      stop_threads();
      throw;
    }
  }

  void run(HttpThread& thread) noexcept {
    asio::steady_timer timer(thread.context);
    guarded([&] { watch_deadlines(thread, timer); });
    while (!thread.context.stopped()) guarded([&] { thread.context.run(); });
  }

  // What a handler of the event loop throws must not end the server.
  template <class Act>
  static void guarded(Act&& act) noexcept {
    try {
      act();
    } catch (...) {
      log_caught("HTTP server");
    }
  }

  void stop_threads() {
    for (auto& one : threads) {
      one->context.stop();
      if (one->thread.joinable()) one->thread.join();
      {
        std::lock_guard lock(one->inbox->mutex);
        one->inbox->context = nullptr;
      }
      one->connections.clear();
    }
  }

  void watch_deadlines(HttpThread& thread, asio::steady_timer& timer) {
    timer.expires_after(tick);
    timer.async_wait([this, &thread, &timer](error_code error) {
      if (error) return;
      guarded([&] {
        const auto now = shared.options.clock();
        // A copy: connections that close leave the set.
        const std::vector<std::shared_ptr<HttpConnection>> all(thread.connections.begin(),
                                                               thread.connections.end());
        for (const auto& connection : all) connection->check_deadline(now);
      });
      watch_deadlines(thread, timer);
    });
  }

  void accept() {
    HttpThread& thread = *threads[next_thread++ % threads.size()];
    acceptor->async_accept(thread.context, [this, &thread](error_code error, TcpSocket socket) {
      if (!acceptor->is_open()) return;
      if (error) return accept_later();
      guarded([&] { add(thread, std::move(socket)); });
      accept();
    });
  }

  // Out of descriptors, say: trying again at once would only burn time.
  void accept_later() {
    pause->expires_after(kAcceptPause);
    pause->async_wait([this](error_code error) {
      if (!error && acceptor->is_open()) accept();
    });
  }

  void add(HttpThread& thread, TcpSocket socket) {
    const bool refused = shared.open - shared.refused >= shared.options.max_connections;
    if (refused && shared.refused >= kMostRefused) return;
    auto connection = make_http_connection(shared, thread, std::move(socket), refused);
    ++shared.open;
    if (refused) ++shared.refused;
    asio::post(thread.context, [this, &thread, connection = std::move(connection)] {
      thread.connections.insert(connection);
      connection->start();
      if (shared.draining) connection->drain();
    });
  }

  template <class Do>
  void for_each_connection(Do act) {
    for (auto& one : threads) {
      asio::post(one->context, [&thread = *one, act] {
        const std::vector<std::shared_ptr<HttpConnection>> all(thread.connections.begin(),
                                                               thread.connections.end());
        for (const auto& connection : all) act(*connection);
      });
    }
  }

  void drain(std::chrono::milliseconds patience) {
    if (is_stopped) return;
    is_stopped = true;
    shared.draining = true;
    asio::post(threads[0]->context, [this] {
      error_code ignored;
      acceptor->close(ignored);
      pause->cancel();
    });
    for_each_connection([](HttpConnection& connection) { connection.drain(); });
    const auto all_closed = [this] { return shared.open == 0; };
    {
      std::unique_lock lock(shared.mutex);
      shared.closed.wait_for(lock, patience, all_closed);
    }
    for_each_connection([](HttpConnection& connection) { connection.close(); });
    // After the closing, which must have run.
    for (auto& one : threads) asio::post(one->context, [&thread = *one] { thread.context.stop(); });
    for (auto& one : threads) one->thread.join();
    stop_threads();
  }

  HttpShared shared;
  std::chrono::milliseconds tick;
  std::vector<std::unique_ptr<HttpThread>> threads;
  // Both used by the first thread alone.
  std::optional<tcp::acceptor> acceptor;
  std::optional<asio::steady_timer> pause;
  size_t next_thread = 0;
  uint16_t port = 0;
  bool is_stopped = false;
};

HttpServer::HttpServer(HttpServerOptions options, HttpHandler handler)
    : state_(std::make_unique<State>(std::move(options), std::move(handler))) {}

HttpServer::~HttpServer() { drain(std::chrono::milliseconds(0)); }

uint16_t HttpServer::port() const { return state_->port; }
size_t HttpServer::connections() const { return state_->shared.open; }
void HttpServer::drain(std::chrono::milliseconds patience) { state_->drain(patience); }

}  // namespace emblem
