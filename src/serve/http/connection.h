// serve/http/connection.h - one connection of an HttpServer; for its .cc file alone.
#pragma once

#include <memory>

#include "serve/http/server.h"
#include "serve/net/connection.h"
#include "serve/net/worker_pool.h"

namespace emblem {

// What all connections of a server have in common, beyond NetShared.
struct HttpShared {
  HttpServerOptions options;
  HttpHandler handler;
  WorkerPool workers;
};

// A connection, with TLS when the server has it. `refused`: answers its first request with 503,
// then closes.
std::shared_ptr<NetConnection> make_http_connection(HttpShared& http, NetShared& shared,
                                                    NetThread& thread, TcpSocket socket,
                                                    bool refused);

}  // namespace emblem
