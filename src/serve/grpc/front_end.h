// serve/grpc/front_end.h - what the calls of a gRPC server share.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "serve/grpc/calls.h"
#include "serve/grpc/methods.h"
#include "serve/grpc/server.h"
#include "serve/net/worker_pool.h"
#include "serve/protocol/slow_calls.h"

namespace emblem {

// Counts the work that other threads do for calls. Thread-safe.
class GrpcWork {
 public:
  class Token {
   public:
    explicit Token(GrpcWork& work) : work_(work) { ++work_.count_; }
    ~Token() { work_.end_one(); }
    Token(const Token&) = delete;
    Token& operator=(const Token&) = delete;

   private:
    GrpcWork& work_;
  };

  // No further work may begin elsewhere meanwhile.
  void wait_until_none() {
    std::unique_lock lock(mutex_);
    is_waited_for_ = true;
    none_left_.wait(lock, [this] { return count_ == 0; });
  }

 private:
  void end_one() {
    // With the lock held: once it is free, the last one's end may end the server, too.
    std::lock_guard lock(mutex_);
    if (--count_ == 0 && is_waited_for_) none_left_.notify_all();
  }

  std::atomic<int64_t> count_ = 0;
  bool is_waited_for_ = false;
  std::mutex mutex_;
  std::condition_variable none_left_;
};

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
  GrpcWork work;
  SlowCalls slow_calls;
  // Messages that are large or compressed are decoded here.
  WorkerPool decoding{options.workers, 4096, "gRPC messages"};
};

}  // namespace emblem
