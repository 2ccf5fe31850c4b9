#include "comm/tcp/socket.h"

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "emblem/error.h"

namespace emblem {
namespace {

constexpr uint32_t kDeadLinkMs = 7000;

const sockaddr* generic(const SocketAddress& address) {
  return reinterpret_cast<const sockaddr*>(&address.bytes);
}

void set_option(int socket, int level, int option, int value) {
  setsockopt(socket, level, option, &value, sizeof(value));
}

// All addresses of this machine, at the same port.
SocketAddress any_address(const SocketAddress& like) {
  SocketAddress any;
  any.size = like.size;
  any.bytes.ss_family = like.bytes.ss_family;
  set_port(any, port_of(like));
  return any;
}

}  // namespace

FileDescriptor listen_on(const SocketAddress& address, int backlog) {
  FileDescriptor listener(
      ::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const auto fail = [&] {
    throw Error(
        ErrorCode::kUnavailable,
        cat("cannot listen on ", text_of(address), ": ", std::strerror(errno),
            errno == EADDRINUSE ? "; choose another port (MASTER_PORT, --rendezvous)" : ""));
  };
  if (listener.get() < 0) fail();
  set_option(listener.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (bind(listener.get(), generic(address), address.size) != 0) {
    if (errno != EADDRNOTAVAIL) fail();
    const SocketAddress any = any_address(address);
    if (bind(listener.get(), generic(any), any.size) != 0) fail();
  }
  if (listen(listener.get(), backlog) != 0) fail();
  return listener;
}

SocketAddress listening_address(const SocketAddress& local, const std::string& host) {
  const bool is_meant = host == "localhost" || host == "::1" || host.starts_with("127.");
  return is_loopback(local) && !is_meant ? any_address(local) : local;
}

FileDescriptor accept_connection(int listener) {
  FileDescriptor connection(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (connection.get() >= 0) tune_connection(connection.get());
  return connection;
}

SocketAddress local_address(int socket) {
  SocketAddress address;
  address.size = sizeof(address.bytes);
  getsockname(socket, reinterpret_cast<sockaddr*>(&address.bytes), &address.size);
  return address;
}

SocketAddress peer_address(int socket) {
  SocketAddress address;
  address.size = sizeof(address.bytes);
  getpeername(socket, reinterpret_cast<sockaddr*>(&address.bytes), &address.size);
  return address;
}

uint16_t port_of(const SocketAddress& address) {
  return ntohs(address.bytes.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&address.bytes)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&address.bytes)->sin_port);
}

void set_port(SocketAddress& address, uint16_t port) {
  if (address.bytes.ss_family == AF_INET6)
    reinterpret_cast<sockaddr_in6*>(&address.bytes)->sin6_port = htons(port);
  else
    reinterpret_cast<sockaddr_in*>(&address.bytes)->sin_port = htons(port);
}

bool is_loopback(const SocketAddress& address) {
  const std::string ip = ip_of(address);
  return ip.starts_with("127.") || ip == "::1" || ip.starts_with("::ffff:127.");
}

std::string ip_of(const SocketAddress& address) {
  char text[INET6_ADDRSTRLEN] = {};
  const bool is_v6 = address.bytes.ss_family == AF_INET6;
  const void* const bytes =
      is_v6 ? static_cast<const void*>(
                  &reinterpret_cast<const sockaddr_in6*>(&address.bytes)->sin6_addr)
            : &reinterpret_cast<const sockaddr_in*>(&address.bytes)->sin_addr;
  inet_ntop(is_v6 ? AF_INET6 : AF_INET, bytes, text, sizeof(text));
  return text;
}

std::string text_of(const SocketAddress& address) {
  const std::string ip = ip_of(address);
  return address.bytes.ss_family == AF_INET6 ? cat("[", ip, "]:", port_of(address))
                                             : cat(ip, ":", port_of(address));
}

void tune_connection(int socket) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 4);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

bool link_is_dead(int socket) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
  return info.tcpi_retransmits > 1 && info.tcpi_unacked > 0 &&
         info.tcpi_last_ack_recv > kDeadLinkMs;
}

std::string send_all(int socket, std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return std::strerror(errno);
    pollfd writable{socket, POLLOUT, 0};
    if (std::chrono::steady_clock::now() >= deadline) return "timed out";
    poll(&writable, 1, poll_timeout(deadline));
  }
  return "";
}

ReceivedMessage receive_message(int socket, MessageReader& reader) {
  char bytes[4096];
  for (;;) {
    if (auto message = reader.next()) return {std::move(message), ""};
    const ssize_t got =
        ::recv(socket, bytes, std::min(sizeof(bytes), reader.wanted()), MSG_DONTWAIT);
    if (got > 0) {
      reader.add({bytes, static_cast<size_t>(got)});
    } else if (got == 0) {
      return {std::nullopt, "closed"};
    } else if (errno == EAGAIN) {
      return {};
    } else if (errno != EINTR) {
      return {std::nullopt, std::strerror(errno)};
    }
  }
}

}  // namespace emblem
