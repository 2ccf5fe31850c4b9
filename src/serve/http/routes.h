// serve/http/routes.h - the paths of the inference protocol over HTTP, answered from an
// InferenceService; also /metrics, the status page at / and what it shows at /status.json.
#pragma once

#include <memory>

#include "serve/http/message.h"
#include "serve/protocol/inference_service.h"
#include "serve/protocol/shared_memory.h"

namespace emblem {

// Must outlive the server that calls it.
class HttpRoutes {
 public:
  // Both must outlive the routes.
  HttpRoutes(InferenceService& service, SharedMemoryRegions& regions);
  // Waits for the loading of a model that is under way.
  ~HttpRoutes();

  // For HttpServer. Answers before it returns, but for inference and for loading and unloading,
  // which a thread of its own does.
  void handle(HttpRequest request, HttpReply reply);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace emblem
