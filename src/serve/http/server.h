// serve/http/server.h - an HTTP/1.1 server: limits, timeouts, TLS, compression. What is answered is
// up to its handler (serve/http/routes.h).
//
// A connection lives on one thread and has one request under way: pipelined ones wait. A reply
// given on that thread is written at once; one from another thread is handed over. A client that
// closes its side of the connection before its reply is taken to have gone away, and its request is
// cancelled.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "serve/http/message.h"
#include "serve/net/options.h"

namespace emblem {

struct HttpServerOptions : NetOptions {
  size_t max_body_bytes = size_t{64} << 20;    // also of expanded bodies; above: 413
  size_t max_header_bytes = size_t{32} << 10;  // above: 431
  // When set, requests need "Authorization: Bearer TOKEN", but for the open paths.
  std::string bearer_token;
  std::vector<std::string> open_paths = {"/", "/v2/health/live", "/v2/health/ready"};
};

class HttpServer {
 public:
  // Listens and answers from here on. Throws kInvalidArgument for options that cannot be, and
  // kUnavailable when the port cannot be listened on.
  HttpServer(HttpServerOptions options, HttpHandler handler);
  ~HttpServer();  // drain(0)

  uint16_t port() const;
  size_t connections() const;

  // Accepts nothing new, gives requests under way their answers, closes. What has no answer within
  // `patience` is cancelled and cut off. Nothing is answered afterwards.
  void drain(std::chrono::milliseconds patience);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace emblem
