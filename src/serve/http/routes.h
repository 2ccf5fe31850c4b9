// serve/http/routes.h - the paths of the inference protocol over HTTP, answered from an
// InferenceService; also /metrics, the status page at / and what it shows at /status.json and
// /history.json.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "serve/http/message/message.h"
#include "serve/protocol/access.h"
#include "serve/protocol/inference_service.h"
#include "serve/protocol/shared_memory.h"

namespace emblem {

// Must outlive the server that calls it.
class HttpRoutes {
 public:
  // All must outlive the routes.
  HttpRoutes(InferenceService& service, SharedMemoryRegions& regions, const Access& access);
  // Waits for the loading of a model that is under way.
  ~HttpRoutes();

  // The refusal for HttpServerOptions::authorize, if the caller may not use this path. The
  // status page itself is open: it has no data, and asks for the token.
  std::optional<HttpResponse> authorize(std::string_view target,
                                        const Caller& caller) const noexcept;

  // The answer to HttpServerOptions::takes_payload.
  bool takes_payload(std::string_view target) const noexcept;

  // The handler of HttpServer. Answers before it returns, but for inference and for loading
  // and unloading, which a thread of its own does.
  void handle(HttpRequest request, HttpReply reply);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace emblem
