#include "serve/http/server.h"

#include "emblem/error.h"
#include "serve/http/connection.h"
#include "serve/net/server.h"

namespace emblem {
namespace {

void check(const HttpServerOptions& options) {
  EMBLEM_REQUIRE(options.max_header_bytes >= 256 && options.max_header_bytes <= size_t{16} << 20,
                 "the limit of header bytes must be between 256 and 16 MiB, not ",
                 options.max_header_bytes);
}

}  // namespace

struct HttpServer::State {
  State(HttpServerOptions options, HttpHandler handler)
      : shared{std::move(options), std::move(handler)},
        server(shared.options, "HTTP connections", "",
               [this](NetShared& net, NetThread& thread, TcpSocket socket, bool refused) {
                 return make_http_connection(shared, net, thread, std::move(socket), refused);
               }) {}

  HttpShared shared;
  NetServer server;
};

HttpServer::HttpServer(HttpServerOptions options, HttpHandler handler) {
  check(options);
  state_ = std::make_unique<State>(std::move(options), std::move(handler));
}

HttpServer::~HttpServer() = default;

uint16_t HttpServer::port() const { return state_->server.port(); }
size_t HttpServer::connections() const { return state_->server.connections(); }
void HttpServer::drain(std::chrono::milliseconds patience) { state_->server.drain(patience); }

}  // namespace emblem
