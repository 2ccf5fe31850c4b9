// serve/http/server.h - an HTTP/1.1 server: limits, timeouts, TLS, compression. What is answered is
// up to its handler (serve/http/routes.h).
//
// A connection lives on one thread and has one request under way: pipelined ones wait. A reply
// given on that thread is written at once; one from another thread is handed over. A client may
// close its sending side after a request and still gets the answer; a request is cancelled when the
// connection is reset. Expanding and compressing bodies and large JSON are left to worker threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "serve/http/message/message.h"
#include "serve/net/options.h"
#include "serve/protocol/access.h"
#include "serve/protocol/memory_budget.h"

namespace emblem {

inline constexpr size_t kSmallBodyBytes = 8192;

struct HttpServerOptions : NetOptions {
  size_t max_body_bytes = size_t{64} << 20;    // also of expanded bodies; above: 413
  size_t max_header_bytes = size_t{32} << 10;  // above: 431
  // Threads for work that would hold up other connections; 0: it is done by `threads`.
  int workers = 2;
  // Whether requests to a path bring tensors or files. Others may have bodies of kSmallBodyBytes at
  // most. Null: all do. Must not throw.
  std::function<bool(std::string_view target)> takes_payload;
  // Bodies and responses take their bytes from it; above: 503. Null: no limit. Must outlive the
  // server and the requests that its handler has taken.
  MemoryBudget* memory_budget = nullptr;
  // Asked once a request's header is there, before its body is read: the response of a refusal,
  // after which the connection is closed. Null: nothing is refused. Must not throw.
  std::function<std::optional<HttpResponse>(std::string_view target, const Caller& caller)>
      authorize;
};

class HttpServer {
 public:
  // Listens and answers from here on. Throws kInvalidArgument for options that cannot be, and
  // kUnavailable when the port cannot be listened on.
  HttpServer(const HttpServerOptions& options, HttpHandler handler);
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
