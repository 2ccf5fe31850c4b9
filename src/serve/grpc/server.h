// serve/grpc/server.h - the inference protocol over gRPC: serve/grpc/service.proto and the standard
// health service.
//
// Requests are decoded on the server's own threads and handed to the service; an answer is written
// on the thread that the service gives it on. A client's cancellation or deadline cancels the
// request.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "serve/protocol/inference_service.h"
#include "serve/protocol/shared_memory.h"

namespace emblem {

struct GrpcServerOptions {
  std::string address = "0.0.0.0";
  uint16_t port = 0;  // 0: any that is free
  // One answers small requests the soonest; more raise the rate where there are CPUs for them.
  int threads = 1;
  int64_t max_message_bytes = int64_t{64} << 20;  // of requests; above: RESOURCE_EXHAUSTED
  // Of one stream without an answer; further ones are not read until then.
  int max_stream_requests = 256;
  // gRPC expands a compressed message whole before it looks at its size, so that a small one can
  // take all memory: only for clients that are trusted. Otherwise: UNIMPLEMENTED.
  bool accept_compressed = false;
  // PEM files; both or none.
  std::string tls_certificate, tls_key;
  // When set, calls need the metadata "authorization: Bearer TOKEN", but for ServerLive,
  // ServerReady and the health service.
  std::string bearer_token;
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

  // Accepts nothing new, gives requests under way their answers, ends streams once they have
  // theirs. What has no answer within `patience` is cancelled. Nothing is answered afterwards.
  void drain(std::chrono::milliseconds patience);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace emblem
