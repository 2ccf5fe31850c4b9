// Inference: one request and one answer, or a stream of them.
#include <deque>

#include "serve/grpc/front_end.h"
#include "serve/grpc/messages.h"

namespace emblem {
namespace {

// Calls that may arrive at once before the queue's thread has seen the first.
constexpr int kAwaitedInferCalls = 16;

class InferCall {
 public:
  static void await(GrpcFrontEnd& front, GrpcQueue& queue) {
    auto* call = new InferCall(front, queue);
    call->context_.AsyncNotifyWhenDone(&call->ended_);
    const bool accepting = queue.accept_next([&] {
      front.protocol.RequestModelInfer(&call->context_, call->message_.get(), &call->responder_,
                                       queue.get(), queue.get(), &call->arrived_);
    });
    if (!accepting) delete call;
  }

 private:
  InferCall(GrpcFrontEnd& front, GrpcQueue& queue) : front_(front), queue_(queue) {}

  void arrived(bool ok) {
    if (!ok) return delete this;
    token_.take(front_.under_way);
    await(front_, queue_);
    const grpc::Status allowed = front_.authorize(context_);
    if (!allowed.ok()) return responder_.FinishWithError(allowed, &finished_);

    DecodedInfer decoded;
    const grpc::Status status =
        status_from([&] { decoded = decode_infer(std::move(message_), front_.regions); });
    if (!status.ok()) return responder_.FinishWithError(status, &finished_);
    shared_outputs_ = std::move(decoded.shared_outputs);
    cancelled_ = std::make_shared<std::atomic<bool>>(false);
    decoded.request->cancelled = cancelled_;
    // The answer may come before this returns, and from another thread: nothing here after it.
    front_.service.infer(std::move(decoded.request),
                         [this](InferResult result) { answer(std::move(result)); });
  }

  // On any thread, once.
  void answer(InferResult result) {
    if (const Error* error = std::get_if<Error>(&result))
      return responder_.FinishWithError(status_of(*error), &finished_);
    const grpc::Status status = status_from([&] {
      encode_response(std::get<InferResponse>(std::move(result)), shared_outputs_, response_);
    });
    if (!status.ok()) return responder_.FinishWithError(status, &finished_);
    responder_.Finish(response_, status, &finished_);
  }

  // The client has gone or its deadline has passed, or all is over as it should be.
  void ended(bool) {
    if (cancelled_ != nullptr && context_.IsCancelled()) *cancelled_ = true;
    has_ended_ = true;
    if (has_finished_) delete this;
  }

  void finished(bool) {
    has_finished_ = true;
    if (has_ended_) delete this;
  }

  CallsUnderWay::Token token_;
  GrpcFrontEnd& front_;
  GrpcQueue& queue_;
  grpc::ServerContext context_;
  std::shared_ptr<inference::ModelInferRequest> message_ =
      std::make_shared<inference::ModelInferRequest>();
  inference::ModelInferResponse response_;
  grpc::ServerAsyncResponseWriter<inference::ModelInferResponse> responder_{&context_};
  std::vector<SharedOutput> shared_outputs_;
  std::shared_ptr<std::atomic<bool>> cancelled_;
  bool has_ended_ = false, has_finished_ = false;  // on the queue's thread alone
  GrpcEventOf<InferCall> arrived_{*this, &InferCall::arrived};
  GrpcEventOf<InferCall> ended_{*this, &InferCall::ended};
  GrpcEventOf<InferCall> finished_{*this, &InferCall::finished};
};

// Answers come in the order of the requests, whatever the order in which they are computed. What is
// wrong with one request is said in its answer and leaves the stream alone.
class InferStream final : public LongGrpcCall, public std::enable_shared_from_this<InferStream> {
 public:
  InferStream(GrpcFrontEnd& front, GrpcQueue& queue) : front_(front), queue_(queue) {}

  static void await(GrpcFrontEnd& front, GrpcQueue& queue) {
    auto call = std::make_shared<InferStream>(front, queue);
    call->context_.AsyncNotifyWhenDone(&call->ended_);
    call->self_ = call;
    const bool accepting = queue.accept_next([&] {
      front.protocol.RequestModelStreamInfer(&call->context_, &call->stream_, queue.get(),
                                             queue.get(), &call->arrived_);
    });
    if (!accepting) call->self_.reset();
  }

  void drain() override {
    std::lock_guard lock(mutex_);
    if (status_.ok()) status_ = {grpc::StatusCode::UNAVAILABLE, "the server is shutting down"};
    no_more_requests_ = true;
    step();
  }

 private:
  struct Exchange {
    std::shared_ptr<std::atomic<bool>> cancelled = std::make_shared<std::atomic<bool>>(false);
    std::vector<SharedOutput> shared_outputs;
    bool marks_final_response = false;
    inference::ModelStreamInferResponse response;
    bool has_response = false;
  };

  void arrived(bool ok) {
    if (!ok) return self_.reset();
    token_.take(front_.under_way);
    await(front_, queue_);
    const grpc::Status allowed = front_.authorize(context_);
    const bool added = allowed.ok() && front_.under_way.add(self_);
    if (allowed.ok() && !added) return drain();
    std::lock_guard lock(mutex_);
    status_ = allowed;
    no_more_requests_ = no_more_requests_ || !allowed.ok();
    step();
  }

  // Starts whatever is due and not under way yet. With the lock held.
  void step() {
    while (broken_ && !exchanges_.empty() && !writing_ && exchanges_.front()->has_response)
      exchanges_.pop_front();
    if (!broken_ && !writing_ && !exchanges_.empty() && exchanges_.front()->has_response) {
      writing_ = true;
      stream_.Write(exchanges_.front()->response, &written_);
    }
    if (!reading_ && !no_more_requests_ &&
        exchanges_.size() < static_cast<size_t>(front_.options.max_stream_requests)) {
      reading_ = true;
      incoming_ = std::make_shared<inference::ModelInferRequest>();
      stream_.Read(incoming_.get(), &read_);
    }
    if (no_more_requests_ && exchanges_.empty() && !finishing_) {
      finishing_ = true;
      stream_.Finish(status_, &finished_);
    }
  }

  void read(bool ok) {
    std::shared_ptr<inference::ModelInferRequest> message;
    Exchange* exchange = nullptr;
    {
      std::lock_guard lock(mutex_);
      reading_ = false;
      no_more_requests_ = no_more_requests_ || !ok;
      if (!no_more_requests_) {
        message = std::move(incoming_);
        exchange = exchanges_.emplace_back(std::make_unique<Exchange>()).get();
      }
      step();
    }
    if (exchange != nullptr) begin(std::move(message), *exchange);
    leave_when_done();
  }

  void begin(std::shared_ptr<inference::ModelInferRequest> message, Exchange& exchange) {
    exchange.response.mutable_infer_response()->set_id(message->id());
    DecodedInfer decoded;
    const grpc::Status status =
        status_from([&] { decoded = decode_infer(std::move(message), front_.regions); });
    if (!status.ok()) return respond(exchange, status);
    exchange.shared_outputs = std::move(decoded.shared_outputs);
    exchange.marks_final_response = decoded.marks_final_response;
    decoded.request->cancelled = exchange.cancelled;
    front_.service.infer(std::move(decoded.request),
                         [stream = shared_from_this(), &exchange](InferResult result) {
                           stream->answer(exchange, std::move(result));
                         });
  }

  // On any thread, once for each exchange.
  void answer(Exchange& exchange, InferResult result) {
    if (const Error* error = std::get_if<Error>(&result))
      return respond(exchange, status_of(*error));
    respond(exchange, status_from([&] {
              encode_response(std::get<InferResponse>(std::move(result)), exchange.shared_outputs,
                              *exchange.response.mutable_infer_response());
            }));
  }

  void respond(Exchange& exchange, const grpc::Status& status) {
    inference::ModelInferResponse& response = *exchange.response.mutable_infer_response();
    if (!status.ok()) {
      // The id stays, so that the client can tell which request it was.
      const std::string id = response.id();
      response.Clear();
      response.set_id(id);
      exchange.response.set_error_message(status.error_message());
    }
    if (exchange.marks_final_response) {
      const std::string key = "triton_final_response";
      (*response.mutable_parameters())[key].set_bool_param(true);
    }
    std::lock_guard lock(mutex_);
    exchange.has_response = true;
    step();
  }

  void written(bool ok) {
    std::lock_guard lock(mutex_);
    writing_ = false;
    broken_ = broken_ || !ok;
    exchanges_.pop_front();
    step();
  }

  // The client has gone or its deadline has passed, or all is over as it should be.
  void ended(bool) {
    {
      std::lock_guard lock(mutex_);
      has_ended_ = true;
      if (context_.IsCancelled()) {
        broken_ = no_more_requests_ = true;
        for (auto& exchange : exchanges_) *exchange->cancelled = true;
      }
      step();
    }
    leave_when_done();
  }

  void finished(bool) {
    has_finished_ = true;
    leave_when_done();
  }

  // On the queue's thread. reading_ is last set there, before the call can have finished.
  void leave_when_done() {
    if (!has_ended_ || !has_finished_) return;
    {
      std::lock_guard lock(mutex_);
      if (reading_) return;
    }
    front_.under_way.remove(self_);
    self_.reset();
  }

  CallsUnderWay::Token token_;
  GrpcFrontEnd& front_;
  GrpcQueue& queue_;
  std::shared_ptr<InferStream> self_;
  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<inference::ModelStreamInferResponse, inference::ModelInferRequest>
      stream_{&context_};

  std::mutex mutex_;
  std::shared_ptr<inference::ModelInferRequest> incoming_;
  std::deque<std::unique_ptr<Exchange>> exchanges_;  // in the order of the requests
  bool reading_ = false, writing_ = false, finishing_ = false;
  bool no_more_requests_ = false;
  bool broken_ = false;  // nothing can be written any more
  grpc::Status status_;
  bool has_ended_ = false, has_finished_ = false;  // on the queue's thread alone

  GrpcEventOf<InferStream> arrived_{*this, &InferStream::arrived};
  GrpcEventOf<InferStream> read_{*this, &InferStream::read};
  GrpcEventOf<InferStream> written_{*this, &InferStream::written};
  GrpcEventOf<InferStream> ended_{*this, &InferStream::ended};
  GrpcEventOf<InferStream> finished_{*this, &InferStream::finished};
};

}  // namespace

void accept_infer_calls(GrpcFrontEnd& front, GrpcQueue& queue) {
  for (int i = 0; i < kAwaitedInferCalls; ++i) InferCall::await(front, queue);
}

void accept_infer_streams(GrpcFrontEnd& front, GrpcQueue& queue) {
  InferStream::await(front, queue);
}

}  // namespace emblem
