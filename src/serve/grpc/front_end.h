// serve/grpc/front_end.h - what the calls of the gRPC server share. Only for the server's own .cc
// files: it includes gRPC.
#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/caught_error.h"
#include "serve/grpc/calls.h"
#include "serve/grpc/health.grpc.pb.h"
#include "serve/grpc/server.h"
#include "serve/grpc/service.grpc.pb.h"
#include "serve/protocol/slow_calls.h"

namespace emblem {

// What a completion queue hands out: something that a call waited for.
class GrpcEvent {
 public:
  virtual void happened(bool ok) = 0;

 protected:
  ~GrpcEvent() = default;
};

// An event that is a member of its call and calls one of its methods.
template <class Call>
class GrpcEventOf final : public GrpcEvent {
 public:
  GrpcEventOf(Call& call, void (Call::*method)(bool)) : call_(call), method_(method) {}
  void happened(bool ok) override { (call_.*method_)(ok); }

 private:
  Call& call_;
  void (Call::*method_)(bool);
};

// A completion queue with its thread: all events of a call happen there.
class GrpcQueue {
 public:
  explicit GrpcQueue(std::unique_ptr<grpc::ServerCompletionQueue> queue)
      : queue_(std::move(queue)) {}
  ~GrpcQueue();  // needs no call to be under way

  void start();
  grpc::ServerCompletionQueue* get() { return queue_.get(); }

  // Runs `accept`, which asks for the next call; false once the queue is closed.
  template <class Accept>
  bool accept_next(Accept&& accept) {
    std::lock_guard lock(mutex_);
    if (!closed_) accept();
    return !closed_;
  }

 private:
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::mutex mutex_;
  bool closed_ = false;
  std::thread thread_;
};

// A call that lasts until the client ends it, or the server drains. drain() asks it to end soon,
// look() to see what changed.
class LongGrpcCall {
 public:
  virtual void drain() = 0;
  virtual void look() {}

 protected:
  ~LongGrpcCall() = default;
};

// Counts the calls that have arrived and are not over, and knows the long ones.
class CallsUnderWay {
 public:
  // The first member of a call, so that the call is over when all else of it is gone.
  class Token {
   public:
    Token() = default;
    ~Token();
    Token(const Token&) = delete;
    void take(CallsUnderWay& calls);

   private:
    CallsUnderWay* calls_ = nullptr;
  };

  // False when the server drains: then the call must end at once.
  bool add(std::shared_ptr<LongGrpcCall> call);
  void remove(const std::shared_ptr<LongGrpcCall>& call);

  void drain();
  void wait_until_none();
  // Lets all long calls look, now and then, until stop(); for a thread.
  void look_regularly();
  void stop();

 private:
  std::vector<std::shared_ptr<LongGrpcCall>> long_calls() const;

  mutable std::mutex mutex_;
  // Two, so that the end of an ordinary call does not wake the thread that watches long ones.
  std::condition_variable none_left_, long_changed_;
  int64_t count_ = 0;
  bool draining_ = false, stopped_ = false;
  std::set<std::shared_ptr<LongGrpcCall>> long_;
};

struct GrpcFrontEnd {
  GrpcFrontEnd(const GrpcServerOptions& server_options, InferenceService& inference_service,
               SharedMemoryRegions& shared_regions)
      : options(server_options),
        service(inference_service),
        regions(shared_regions),
        calls(inference_service, shared_regions) {}

  // Throws nothing: not OK when the call lacks the server's token.
  grpc::Status authorize(const grpc::ServerContext& context) const;

  const GrpcServerOptions options;
  InferenceService& service;
  SharedMemoryRegions& regions;
  GrpcCalls calls;
  inference::GRPCInferenceService::AsyncService protocol;
  grpc::health::v1::Health::AsyncService health;
  CallsUnderWay under_way;
  SlowCalls slow_calls;
};

grpc::Status status_of(const Error& error);

// What `body` throws as a status; OK when it throws nothing.
template <class Body>
grpc::Status status_from(Body&& body) {
  try {
    body();
    return grpc::Status::OK;
  } catch (...) {
    return status_of(caught_error());
  }
}

// Each asks for calls of its kind from now on.
void accept_plain_calls(GrpcFrontEnd& front, GrpcQueue& queue);
void accept_health_watches(GrpcFrontEnd& front, GrpcQueue& queue);
void accept_infer_calls(GrpcFrontEnd& front, GrpcQueue& queue);
void accept_infer_streams(GrpcFrontEnd& front, GrpcQueue& queue);

}  // namespace emblem
