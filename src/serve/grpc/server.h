// serve/grpc/server.h - the inference protocol over gRPC: serve/grpc/service.proto, the standard
// health service and server reflection, over HTTP/2 (serve/http2).
//
// Connections are spread over threads. Small requests are decoded there and handed to the service;
// large or compressed ones are decoded on other threads, so that they delay no others. A client's
// cancellation or deadline cancels the request.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "serve/http2/session.h"
#include "serve/net/options.h"
#include "serve/protocol/access.h"
#include "serve/protocol/inference_service.h"
#include "serve/protocol/memory_budget.h"
#include "serve/protocol/shared_memory.h"

namespace emblem {

struct GrpcServerOptions : NetOptions {
  int64_t max_message_bytes = int64_t{64}
                              << 20;  // bytes of requests, expanded; above: RESOURCE_EXHAUSTED
  // Requests of one stream without an answer; further ones are not read until then.
  int max_stream_requests = 256;
  // Threads for messages that are large or compressed; 0: these are decoded by `threads`.
  int workers = 2;
  Http2Limits http2;
  // Both must outlive the server. Null: everyone may do everything; no limit.
  const Access* access = nullptr;
  MemoryBudget* memory_budget = nullptr;
};

class GrpcServer {
 public:
  // Listens and answers from here on. `service` and `regions` must outlive the server. Throws
  // kInvalidArgument for options that cannot be, and kUnavailable when the port cannot be listened
  // on.
  GrpcServer(const GrpcServerOptions& options, InferenceService& service,
             SharedMemoryRegions& regions);
  ~GrpcServer();  // drain(0)

  uint16_t port() const;
  size_t connections() const;

  // Accepts nothing new, gives requests under way their answers, ends streams once they have
  // theirs. What has no answer within `patience` is cancelled. Nothing is answered afterwards.
  void drain(std::chrono::milliseconds patience);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace emblem
