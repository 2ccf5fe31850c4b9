// Replaces server.cc in builds without EMBLEM_SERVE.
#include "emblem/error.h"
#include "emblem/server.h"

namespace emblem::api {

struct Server::State {};

Server::Server(const ServerOptions&) {
  throw Error(ErrorCode::kUnsupported,
              "Emblem was built without a server: install Boost, OpenSSL, zlib and libnghttp2, and "
              "build it again");
}
Server::Server(const Model&, const std::string&, const ServerOptions& options) : Server(options) {}
Server::~Server() = default;
Server::Server(Server&&) noexcept = default;
Server& Server::operator=(Server&&) noexcept = default;

// There is no object to call these of.
std::string Server::url() const { return ""; }
std::string Server::address() const { return ""; }
int Server::http_port() const { return 0; }
int Server::grpc_port() const { return 0; }
int Server::metrics_port() const { return 0; }
int Server::health_port() const { return 0; }
bool Server::is_ready() const { return false; }
std::vector<ServedModel> Server::models() const { return {}; }
void Server::reload() {}
void Server::load(const std::string&) {}
void Server::unload(const std::string&) {}
void Server::drain(double) {}
void Server::wait() {}

}  // namespace emblem::api
