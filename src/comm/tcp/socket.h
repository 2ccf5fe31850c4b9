// comm/tcp/socket.h - TCP sockets with deadlines. All are non-blocking.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "comm/tcp/message.h"
#include "core/files/file_descriptor.h"
#include "core/system/tcp_connect.h"

namespace emblem {

// Listens on the address itself or, where it is not one of this machine (the address of a service
// in front of it), on all. Port 0: a free one. Throws kUnavailable: "cannot listen on HOST:PORT:
// Address already in use; ...".
FileDescriptor listen_on(const SocketAddress& address, int backlog);

// Where to listen so that others reach `local`, an address of this machine that `host` stands for.
// Many systems map their own host name to a loopback address, which other hosts do not reach: then
// all addresses. "localhost" and numbers are taken as they are.
SocketAddress listening_address(const SocketAddress& local, const std::string& host);

// The next connection that waits; negative: none.
FileDescriptor accept_connection(int listener);

SocketAddress local_address(int socket);
SocketAddress peer_address(int socket);
uint16_t port_of(const SocketAddress& address);
void set_port(SocketAddress& address, uint16_t port);
bool is_loopback(const SocketAddress& address);
std::string ip_of(const SocketAddress& address);    // "10.0.0.7", "::1"
std::string text_of(const SocketAddress& address);  // "10.0.0.7:29500", "[::1]:29500"

// Sends small packets at once; a peer that has vanished silently is noticed after 7 s while
// this side has nothing to send (keepalive).
void tune_connection(int socket);

// Whether the peer's host has acknowledged nothing for 7 s though data was repeated: the link is
// cut. A peer that is busy and does not read is not meant: its host still answers.
bool link_is_dead(int socket);

// Sends all bytes. "" or the reason why not.
std::string send_all(int socket, std::string_view bytes, Deadline deadline);

// Reads what `reader` wants until a message is complete or no more bytes wait. Empty `end`: the
// connection is open; else the reason why not ("closed", or the system's). Throws kCorruption.
struct ReceivedMessage {
  std::optional<Message> message;
  std::string end;
};
ReceivedMessage receive_message(int socket, MessageReader& reader);

}  // namespace emblem
