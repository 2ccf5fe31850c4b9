// serve/grpc/front_end.h - what the calls of a gRPC server share.
#pragma once

#include "serve/grpc/calls.h"
#include "serve/grpc/methods.h"
#include "serve/grpc/server.h"
#include "serve/net/worker_pool.h"
#include "serve/protocol/slow_calls.h"
#include "serve/protocol/work_count.h"

namespace emblem {

struct GrpcFrontEnd {
  GrpcFrontEnd(const GrpcServerOptions& server_options, InferenceService& inference_service,
               SharedMemoryRegions& shared_regions)
      : options(server_options),
        service(inference_service),
        regions(shared_regions),
        calls(inference_service, shared_regions,
              options.access == nullptr || options.access->allows_shared_memory()) {}

  const GrpcServerOptions options;
  InferenceService& service;
  SharedMemoryRegions& regions;
  GrpcCalls calls;
  const GrpcMethods methods = grpc_methods();
  WorkCount work;
  SlowCalls slow_calls, item_calls;
  // Messages that are large or compressed are decoded here.
  WorkerPool decoding{options.workers, 4096, "gRPC messages"};
};

}  // namespace emblem
