#include "launch/meeting_port.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <random>

#include "emblem/error.h"

namespace emblem {

ReservedPort::ReservedPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  const int yes = 1;
  // Bound without SO_REUSEADDR, so that the port is new; with it afterwards, so that a rank, which
  // sets it as well, can listen there.
  if (socket_.get() < 0 || bind(socket_.get(), generic, size) != 0 ||
      getsockname(socket_.get(), generic, &size) != 0 ||
      setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0)
    throw Error(ErrorCode::kUnavailable,
                cat("cannot find a free port: ", std::strerror(errno), "; give --meet HOST:PORT"));
  port_ = ntohs(address.sin_port);
}

uint16_t guess_port() {
  std::random_device device;
  return std::uniform_int_distribution<uint16_t>(20000, 29999)(device);
}

}  // namespace emblem
