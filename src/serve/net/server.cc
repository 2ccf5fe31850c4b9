#include "serve/net/server.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>
#include <vector>

#include "core/caught_error.h"
#include "core/start_thread.h"
#include "serve/net/tls.h"

namespace emblem {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

// Refused connections are told so next to the others; above this number they are closed.
constexpr size_t kMostRefused = 64;
constexpr std::chrono::milliseconds kAcceptPause{100};

void check(const NetOptions& options, const std::string& purpose) {
  EMBLEM_REQUIRE(options.threads > 0, purpose, " needs at least one thread, not ", options.threads);
  EMBLEM_REQUIRE(options.max_connections > 0, purpose, " needs at least one connection");
  EMBLEM_REQUIRE(options.idle_timeout.count() > 0 && options.read_timeout.count() > 0,
                 "the timeouts of ", purpose, " must be positive");
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

// A copy of the set: connections that close leave it.
std::vector<std::shared_ptr<NetConnection>> all_of(const NetThread& thread) {
  return {thread.connections.begin(), thread.connections.end()};
}

// Closes the connection of the thread that has been idle the longest; false when none is.
bool close_idle(const NetThread& thread) {
  std::shared_ptr<NetConnection> oldest;
  Clock::time_point since = Clock::time_point::max();
  for (const auto& connection : thread.connections) {
    const auto idle_since = connection->idle_since();
    if (!idle_since || *idle_since >= since) continue;
    since = *idle_since;
    oldest = connection;
  }
  if (oldest) oldest->close();
  return oldest != nullptr;
}

}  // namespace

bool is_local_peer(const TcpSocket& socket) {
  error_code error;
  const tcp::endpoint peer = socket.remote_endpoint(error);
  if (error) return false;
  const asio::ip::address address = peer.address();
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).is_loopback();
  return address.is_loopback();
}

void check_port(const std::string& address, uint16_t port) {
  asio::io_context context;
  if (port != 0) listen_on(context, address, port);
}

void NetConnection::leave(const std::shared_ptr<NetConnection>& self) {
  thread_.connections.erase(self);
  if (is_refused_) --shared_.refused;
  if (shared_.open.fetch_sub(1) == 1) {
    std::lock_guard lock(shared_.mutex);
    shared_.closed.notify_all();
  }
}

struct NetServer::State {
  State(NetOptions options, const std::string& purpose, const std::string& alpn,
        MakeConnection make)
      : make_connection(std::move(make)) {
    check(options, purpose);
    shared.tls = make_tls(options, alpn);
    shared.options = std::move(options);
    tick = std::clamp(std::min(shared.options.idle_timeout, shared.options.read_timeout) / 4,
                      std::chrono::milliseconds(5), std::chrono::milliseconds(1000));
    for (int i = 0; i < shared.options.threads; ++i)
      threads.push_back(std::make_unique<NetThread>());
    acceptor.emplace(listen_on(threads[0]->context, shared.options.address, shared.options.port));
    pause.emplace(threads[0]->context);
    port = acceptor->local_endpoint().port();
    try {
      for (auto& one : threads) {
        one->inbox->context = &one->context;
        NetThread& thread = *one;
        thread.thread = start_thread(purpose.c_str(), [this, &thread] { run(thread); });
      }
      asio::post(threads[0]->context, [this] { accept(); });
    } catch (...) {
      stop_threads();
      throw;
    }
  }

  void run(NetThread& thread) noexcept {
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
      log_caught("network server");
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

  void watch_deadlines(NetThread& thread, asio::steady_timer& timer) {
    timer.expires_after(tick);
    timer.async_wait([this, &thread, &timer](error_code error) {
      if (error) return;
      guarded([&] {
        const auto now = shared.options.clock();
        for (const auto& connection : all_of(thread)) connection->check_deadline(now);
      });
      watch_deadlines(thread, timer);
    });
  }

  // ---- accepting: by the first thread ----

  void accept() {
    const size_t home = next_thread++ % threads.size();
    acceptor->async_accept(threads[home]->context,
                           [this, home](error_code error, TcpSocket socket) {
                             if (!acceptor->is_open()) return;
                             if (error) return accept_later();
                             guarded([&] { on_accepted(home, std::move(socket)); });
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

  void on_accepted(size_t home, TcpSocket socket) {
    const bool has_room = shared.open - shared.refused < shared.options.max_connections;
    // Counted from here on, so that many at once do not all find room.
    ++shared.open;
    if (has_room) return add(home, std::move(socket), /*refused=*/false);
    make_room(home, 0, std::move(socket));
  }

  // Asks one thread after the other, beginning with the home of the new connection, to close an
  // idle connection.
  void make_room(size_t home, size_t asked, TcpSocket socket) {
    if (asked == threads.size()) return refuse(home, std::move(socket));
    NetThread& thread = *threads[(home + asked) % threads.size()];
    asio::post(thread.context, [this, home, asked, &thread, socket = std::move(socket)]() mutable {
      guarded([&] {
        // Another may have closed by now; `open` counts the new one, too.
        const bool has_room = shared.open - shared.refused <= shared.options.max_connections;
        if (has_room || close_idle(thread)) return add(home, std::move(socket), /*refused=*/false);
        make_room(home, asked + 1, std::move(socket));
      });
    });
  }

  void refuse(size_t home, TcpSocket socket) {
    if (shared.refused >= kMostRefused) {
      --shared.open;
      return;
    }
    ++shared.refused;
    add(home, std::move(socket), /*refused=*/true);
  }

  void add(size_t home, TcpSocket socket, bool refused) {
    NetThread& thread = *threads[home];
    std::shared_ptr<NetConnection> connection;
    try {
      connection = make_connection(shared, thread, std::move(socket), refused);
    } catch (...) {
      --shared.open;
      if (refused) --shared.refused;
      throw;
    }
    asio::post(thread.context, [this, &thread, connection = std::move(connection)] {
      thread.connections.insert(connection);
      connection->start();
      if (shared.draining) connection->drain();
    });
  }

  // ---- the end ----

  template <class Do>
  void for_each_connection(Do act) {
    for (auto& one : threads) {
      asio::post(one->context, [&thread = *one, act] {
        for (const auto& connection : all_of(thread)) act(*connection);
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
    for_each_connection([](NetConnection& connection) { connection.drain(); });
    {
      std::unique_lock lock(shared.mutex);
      shared.closed.wait_for(lock, patience, [this] { return shared.open == 0; });
    }
    for_each_connection([](NetConnection& connection) { connection.close(); });
    // After the closing, which must have run.
    for (auto& one : threads) asio::post(one->context, [&thread = *one] { thread.context.stop(); });
    for (auto& one : threads) one->thread.join();
    stop_threads();
  }

  NetShared shared;
  const MakeConnection make_connection;
  std::chrono::milliseconds tick;
  std::vector<std::unique_ptr<NetThread>> threads;
  // Both used by the first thread alone.
  std::optional<tcp::acceptor> acceptor;
  std::optional<asio::steady_timer> pause;
  size_t next_thread = 0;
  uint16_t port = 0;
  bool is_stopped = false;
};

NetServer::NetServer(NetOptions options, const std::string& purpose, const std::string& alpn,
                     MakeConnection make_connection)
    : state_(
          std::make_unique<State>(std::move(options), purpose, alpn, std::move(make_connection))) {}

NetServer::~NetServer() { drain(std::chrono::milliseconds(0)); }

uint16_t NetServer::port() const { return state_->port; }
size_t NetServer::connections() const { return state_->shared.open; }
void NetServer::drain(std::chrono::milliseconds patience) { state_->drain(patience); }

}  // namespace emblem
