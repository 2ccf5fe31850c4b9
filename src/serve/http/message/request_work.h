// serve/http/message/request_work.h - what lies between the bytes of a request and its handler, and
// between the handler's answer and the bytes of the response; short work is done on the
// connection's thread, long work by workers.
#pragma once

#include <memory>
#include <optional>

#include "serve/http/message/body.h"
#include "serve/http/message/message.h"
#include "serve/http/server.h"

namespace emblem {

// A request that has arrived whole. Expands its body where it is compressed, and calls the handler.
// Errors on the way are the reply.
class HttpRequestWork {
 public:
  // A body as it arrived.
  struct Body {
    HttpBody bytes;
    ContentEncoding encoding = ContentEncoding::kIdentity;
    size_t max_expanded = 0;
  };
  // `handler` must outlive it.
  HttpRequestWork(const HttpHandler& handler, HttpRequest request, Body body, HttpReply reply);

  // Runs on the connection's thread. False when what is left takes long, and is for workers.
  bool start();
  // Runs on a worker; true: there is more to do.
  bool step();

 private:
  // Whether the body is complete; replies when it cannot be.
  bool expand(size_t bytes);
  void call_handler();
  void refuse();

  const HttpHandler& handler_;
  HttpRequest request_;
  HttpBody body_;
  ContentEncoding encoding_;
  size_t max_expanded_;
  HttpReply reply_;
  std::unique_ptr<HttpBodyExpander> expander_;
  bool is_answered_ = false;
};

// Whether finishing the response takes so long that it is for workers.
bool is_long_work(const HttpResponse& response, ContentEncoding accepted);
// Writes what was deferred, and compresses where that is worth it and `budget` (null: none) has the
// memory. Throws what those throw.
HttpResponse finish_response(HttpResponse response, ContentEncoding accepted, MemoryBudget* budget);

}  // namespace emblem
