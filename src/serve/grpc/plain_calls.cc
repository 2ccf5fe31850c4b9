// All calls but inference: one question, one answer; and watching the server's health.
#include "serve/grpc/front_end.h"

namespace emblem {
namespace {

enum class Needs { kNothing, kToken, kTokenAndTime };

template <class Request, class Response, class Accept>
class PlainCall {
 public:
  static void await(GrpcFrontEnd& front, GrpcQueue& queue, Needs needs, Accept accept) {
    auto* call = new PlainCall(front, queue, needs, accept);
    const bool accepting = queue.accept_next([&] {
      accept(&call->context_, &call->request_, &call->responder_, queue.get(), queue.get(),
             &call->arrived_);
    });
    if (!accepting) delete call;
  }

 private:
  PlainCall(GrpcFrontEnd& front, GrpcQueue& queue, Needs needs, Accept accept)
      : front_(front), queue_(queue), needs_(needs), accept_(accept) {}

  void arrived(bool ok) {
    if (!ok) return delete this;
    token_.take(front_.under_way);
    await(front_, queue_, needs_, accept_);
    if (needs_ != Needs::kNothing) {
      const grpc::Status allowed = front_.authorize(context_);
      if (!allowed.ok()) return responder_.FinishWithError(allowed, &finished_);
    }
    if (needs_ != Needs::kTokenAndTime) return answer();
    if (!front_.slow_calls.add([this] { answer(); }))
      responder_.FinishWithError(
          {grpc::StatusCode::UNAVAILABLE, "too many models wait to be loaded or unloaded"},
          &finished_);
  }

  void answer() {
    const grpc::Status status =
        status_from([&] { front_.calls.answer(std::as_const(request_), response_); });
    if (status.ok())
      responder_.Finish(response_, status, &finished_);
    else
      responder_.FinishWithError(status, &finished_);
  }

  void finished(bool) { delete this; }

  CallsUnderWay::Token token_;
  GrpcFrontEnd& front_;
  GrpcQueue& queue_;
  const Needs needs_;
  const Accept accept_;
  grpc::ServerContext context_;
  Request request_;
  Response response_;
  grpc::ServerAsyncResponseWriter<Response> responder_{&context_};
  GrpcEventOf<PlainCall> arrived_{*this, &PlainCall::arrived};
  GrpcEventOf<PlainCall> finished_{*this, &PlainCall::finished};
};

template <class Request, class Response, class Accept>
void await_plain(GrpcFrontEnd& front, GrpcQueue& queue, Needs needs, Accept accept) {
  PlainCall<Request, Response, Accept>::await(front, queue, needs, accept);
}

// Notifies one client whether the server is ready, now and whenever that changes.
class HealthWatch final : public LongGrpcCall, public std::enable_shared_from_this<HealthWatch> {
 public:
  HealthWatch(GrpcFrontEnd& front, GrpcQueue& queue) : front_(front), queue_(queue) {}

  static void await(GrpcFrontEnd& front, GrpcQueue& queue) {
    auto call = std::make_shared<HealthWatch>(front, queue);
    call->context_.AsyncNotifyWhenDone(&call->ended_);
    call->self_ = call;
    const bool accepting = queue.accept_next([&] {
      front.health.RequestWatch(&call->context_, &call->request_, &call->writer_, queue.get(),
                                queue.get(), &call->arrived_);
    });
    if (!accepting) call->self_.reset();
  }

  void drain() override {
    std::lock_guard lock(mutex_);
    draining_ = true;
    step();
  }

  void look() override {
    std::lock_guard lock(mutex_);
    step();
  }

 private:
  using Response = grpc::health::v1::HealthCheckResponse;

  Response::ServingStatus current() const {
    Response response;
    const grpc::Status status = status_from([&] { front_.calls.answer(request_, response); });
    return status.ok() ? response.status() : Response::SERVICE_UNKNOWN;
  }

  void arrived(bool ok) {
    if (!ok) return self_.reset();
    token_.take(front_.under_way);
    await(front_, queue_);
    const bool added = front_.under_way.add(self_);
    std::lock_guard lock(mutex_);
    draining_ = draining_ || !added;
    step();
  }

  // Starts what is due: the status if it changed, or the end.
  void step() {
    if (writing_ || finishing_) return;
    const Response::ServingStatus now = current();
    if (now != told_ && !over_) {
      told_ = now;
      response_.set_status(now);
      writing_ = true;
      writer_.Write(response_, &written_);
    } else if (over_ || draining_) {
      finishing_ = true;
      writer_.Finish({grpc::StatusCode::UNAVAILABLE, "the server is shutting down"}, &finished_);
    }
  }

  void written(bool ok) {
    std::lock_guard lock(mutex_);
    writing_ = false;
    over_ = over_ || !ok;
    step();
  }

  // The client has gone, or the call is over.
  void ended(bool) {
    {
      std::lock_guard lock(mutex_);
      has_ended_ = over_ = true;
      step();
    }
    leave_when_done();
  }

  void finished(bool) {
    has_finished_ = true;
    leave_when_done();
  }

  void leave_when_done() {
    if (!has_ended_ || !has_finished_) return;
    front_.under_way.remove(self_);
    self_.reset();
  }

  CallsUnderWay::Token token_;
  GrpcFrontEnd& front_;
  GrpcQueue& queue_;
  std::shared_ptr<HealthWatch> self_;
  grpc::ServerContext context_;
  grpc::health::v1::HealthCheckRequest request_;
  grpc::ServerAsyncWriter<Response> writer_{&context_};

  std::mutex mutex_;
  Response response_;
  Response::ServingStatus told_ = Response::UNKNOWN;
  bool writing_ = false, finishing_ = false, draining_ = false;
  bool over_ = false;                              // nothing can be written any more
  bool has_ended_ = false, has_finished_ = false;  // on the queue's thread alone

  GrpcEventOf<HealthWatch> arrived_{*this, &HealthWatch::arrived};
  GrpcEventOf<HealthWatch> written_{*this, &HealthWatch::written};
  GrpcEventOf<HealthWatch> ended_{*this, &HealthWatch::ended};
  GrpcEventOf<HealthWatch> finished_{*this, &HealthWatch::finished};
};

}  // namespace

void accept_plain_calls(GrpcFrontEnd& front, GrpcQueue& queue) {
#define EMBLEM_AWAIT(NAME, NEEDS)                                   \
  await_plain<inference::NAME##Request, inference::NAME##Response>( \
      front, queue, NEEDS,                                          \
      [&front](auto... arguments) { front.protocol.Request##NAME(arguments...); })
  EMBLEM_AWAIT(ServerLive, Needs::kNothing);
  EMBLEM_AWAIT(ServerReady, Needs::kNothing);
  EMBLEM_AWAIT(ServerMetadata, Needs::kToken);
  EMBLEM_AWAIT(ModelReady, Needs::kToken);
  EMBLEM_AWAIT(ModelMetadata, Needs::kToken);
  EMBLEM_AWAIT(ModelConfig, Needs::kToken);
  EMBLEM_AWAIT(ModelStatistics, Needs::kToken);
  EMBLEM_AWAIT(RepositoryIndex, Needs::kToken);
  EMBLEM_AWAIT(RepositoryModelLoad, Needs::kTokenAndTime);
  EMBLEM_AWAIT(RepositoryModelUnload, Needs::kTokenAndTime);
  EMBLEM_AWAIT(SystemSharedMemoryStatus, Needs::kToken);
  EMBLEM_AWAIT(SystemSharedMemoryRegister, Needs::kToken);
  EMBLEM_AWAIT(SystemSharedMemoryUnregister, Needs::kToken);
  EMBLEM_AWAIT(CudaSharedMemoryStatus, Needs::kToken);
  EMBLEM_AWAIT(CudaSharedMemoryRegister, Needs::kToken);
  EMBLEM_AWAIT(CudaSharedMemoryUnregister, Needs::kToken);
  EMBLEM_AWAIT(TraceSetting, Needs::kToken);
  EMBLEM_AWAIT(LogSettings, Needs::kToken);
#undef EMBLEM_AWAIT
  await_plain<grpc::health::v1::HealthCheckRequest, grpc::health::v1::HealthCheckResponse>(
      front, queue, Needs::kNothing,
      [&front](auto... arguments) { front.health.RequestCheck(arguments...); });
}

void accept_health_watches(GrpcFrontEnd& front, GrpcQueue& queue) {
  HealthWatch::await(front, queue);
}

}  // namespace emblem
