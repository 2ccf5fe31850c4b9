#include "serve/net/server.h"

#include <fcntl.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>
#include <vector>

#include "core/files/file_descriptor.h"
#include "core/system/caught_error.h"
#include "core/threads/start_thread.h"
#include "serve/net/connection_limits.h"
#include "serve/net/tls.h"

namespace emblem {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr std::chrono::seconds kStuck{5};

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

// The connection of the thread that has been idle the longest; null when none is. One that is only
// told that it is refused has no place that another could take.
std::shared_ptr<NetConnection> longest_idle(const NetThread& thread) {
  std::shared_ptr<NetConnection> oldest;
  Clock::time_point since = Clock::time_point::max();
  for (const auto& connection : thread.connections) {
    const auto idle_since = connection->is_refused() ? std::nullopt : connection->idle_since();
    if (!idle_since || *idle_since >= since) continue;
    since = *idle_since;
    oldest = connection;
  }
  return oldest;
}

// The process or the system has no descriptor for a new connection.
bool is_out_of_descriptors(const error_code& error) {
  return error == asio::error::no_descriptors ||
         error == boost::system::errc::too_many_files_open_in_system;
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

ClientKey client_of(const TcpSocket& socket, const void* connection) {
  ClientKey client{0, reinterpret_cast<uintptr_t>(connection)};
  error_code error;
  const asio::ip::address address = socket.remote_endpoint(error).address();
  if (error) return client;
  if (address.is_v4()) {
    client.host = address.to_v4().to_uint();
    return client;
  }
  const auto bytes = address.to_v6().to_bytes();
  const size_t first = address.to_v6().is_v4_mapped() ? 8 : 0;
  for (size_t i = first; i < first + 8; ++i) client.host = client.host << 8 | bytes[i];
  return client;
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
    refill_spares();
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
        if (&thread != threads[0].get()) return;
        refill_spares();
        accept_if_stuck();
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
                             if (is_out_of_descriptors(error)) return find_descriptor_when_needed();
                             if (error) return accept_later();
                             bool continues = true;
                             guarded([&] { continues = on_accepted(home, std::move(socket)); });
                             if (continues) accept();
                           });
  }
  void accept_on_first_thread() {
    asio::post(threads[0]->context, [this] {
      making_room_since.reset();
      if (acceptor->is_open()) accept();
    });
  }
  // Where memory was too scarce to make room, no other handler accepts again.
  void accept_if_stuck() {
    if (!making_room_since || Clock::now() - *making_room_since < kStuck) return;
    making_room_since.reset();
    if (acceptor->is_open()) accept();
  }

  // Trying again at once would only burn time.
  void accept_later() {
    pause->expires_after(kAcceptPause);
    pause->async_wait([this](error_code error) {
      if (!error && acceptor->is_open()) accept();
    });
  }

  // Without a free descriptor accept() fails even when no connection waits: closing an idle one
  // then would close the one that has just been accepted, once no older one is left.
  void find_descriptor_when_needed() {
    acceptor->async_wait(tcp::acceptor::wait_read, [this](error_code error) {
      if (!error && acceptor->is_open()) guarded([&] { find_descriptor(); });
    });
  }

  // Accepts with a spare descriptor, or with that of the connection that has been idle the longest.
  void find_descriptor() {
    if (!spares.empty()) {
      spares.pop_back();
      return accept();
    }
    making_room_since = Clock::now();
    close_longest_idle({}, [this](bool is_closed) {
      if (is_closed) return accept_on_first_thread();
      asio::post(threads[0]->context, [this] {
        making_room_since.reset();
        if (acceptor->is_open()) accept_later();
      });
    });
  }

  void refill_spares() {
    while (spares.size() < shared.options.spare_descriptors) {
      FileDescriptor spare(::open("/dev/null", O_RDONLY | O_CLOEXEC));
      if (spare.get() < 0) return;
      spares.push_back(std::move(spare));
    }
  }

  // False: the next one is accepted once there is room for this one. So connections that come all
  // at once do not find each other's places taken and none idle yet.
  bool on_accepted(size_t home, TcpSocket socket) {
    const bool has_room = shared.open - shared.refused < shared.options.max_connections;
    // Counted from here on, so that many at once do not all find room.
    ++shared.open;
    if (has_room) {
      add(home, std::move(socket), /*refused=*/false);
      return true;
    }
    making_room_since = Clock::now();
    close_longest_idle({}, [this, home, socket = std::move(socket)](bool is_closed) mutable {
      // Another may have closed by now; `open` counts the new one, too.
      const bool has_room = shared.open - shared.refused <= shared.options.max_connections;
      guarded([&] {
        if (has_room || is_closed)
          add(home, std::move(socket), /*refused=*/false);
        else
          refuse(home, std::move(socket));
      });
      accept_on_first_thread();
    });
    return false;
  }

  // What a walk over all threads has found.
  struct IdleSearch {
    size_t asked = 0;   // threads
    size_t thread = 0;  // that has the connection
    Clock::time_point since = Clock::time_point::max();
  };

  // Asks one thread after the other, then has the connection closed that has been idle the longest
  // of all. then(whether there was one) is called on one of the threads.
  template <class Then>
  void close_longest_idle(IdleSearch search, Then then) {
    const bool is_found = search.asked == threads.size();
    if (is_found && search.since == Clock::time_point::max()) return then(false);
    NetThread& thread = *threads[is_found ? search.thread : search.asked];
    asio::post(thread.context, [this, search, is_found, &thread, then = std::move(then)]() mutable {
      guarded([&] {
        const std::shared_ptr<NetConnection> oldest = longest_idle(thread);
        if (is_found) {
          if (oldest) oldest->close();
          return then(oldest != nullptr);
        }
        if (oldest && *oldest->idle_since() < search.since)
          search = {search.asked, search.asked, *oldest->idle_since()};
        ++search.asked;
        close_longest_idle(search, std::move(then));
      });
    });
  }

  void refuse(size_t home, TcpSocket socket) {
    if (shared.refused >= most_refused(shared.options.max_connections)) {
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
    // Runs after the closing, which must have run.
    for (auto& one : threads) asio::post(one->context, [&thread = *one] { thread.context.stop(); });
    for (auto& one : threads) one->thread.join();
    stop_threads();
  }

  NetShared shared;
  const MakeConnection make_connection;
  std::chrono::milliseconds tick;
  std::vector<std::unique_ptr<NetThread>> threads;
  // All used by the first thread alone.
  std::optional<tcp::acceptor> acceptor;
  std::optional<asio::steady_timer> pause;
  std::vector<FileDescriptor> spares;
  std::optional<Clock::time_point> making_room_since;  // for a connection, before the next
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
