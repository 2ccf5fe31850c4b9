#include "serve/http/server.h"

#include "emblem/error.h"
#include "serve/http/connection.h"
#include "serve/net/server.h"

namespace emblem {
namespace {

// Requests that wait for a worker; above: 503.
constexpr size_t kMostWaiting = 256;

void check(const HttpServerOptions& options) {
  EMBLEM_REQUIRE(options.max_header_bytes >= 256 && options.max_header_bytes <= size_t{16} << 20,
                 "the limit of header bytes must be between 256 and 16 MiB, not ",
                 options.max_header_bytes);
  EMBLEM_REQUIRE(options.workers >= 0, "the workers of an HTTP server cannot be ", options.workers);
}

}  // namespace

struct HttpServer::State {
  State(const HttpServerOptions& options, HttpHandler handler)
      : shared{options, std::move(handler), {options.workers, kMostWaiting, "HTTP workers"}},
        server(shared.options, "HTTP connections", "",
               [this](NetShared& net, NetThread& thread, TcpSocket socket, bool refused) {
                 return make_http_connection(shared, net, thread, std::move(socket), refused);
               }) {}

  HttpShared shared;
  NetServer server;
};

HttpServer::HttpServer(const HttpServerOptions& options, HttpHandler handler) {
  check(options);
  state_ = std::make_unique<State>(options, std::move(handler));
}

HttpServer::~HttpServer() = default;

uint16_t HttpServer::port() const { return state_->server.port(); }
size_t HttpServer::connections() const { return state_->server.connections(); }
void HttpServer::drain(std::chrono::milliseconds patience) {
  state_->server.drain(patience);
  state_->shared.workers.stop();
}

}  // namespace emblem
