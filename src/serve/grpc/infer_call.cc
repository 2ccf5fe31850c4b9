// Inference: one request and one answer, or a stream of them.
#include <deque>

#include "serve/grpc/call_kinds.h"
#include "serve/grpc/messages.h"
#include "serve/grpc/parsed.h"

namespace emblem {
namespace {

using std::chrono::steady_clock;

// Answers of a stream are written ahead of the client up to here.
constexpr size_t kMostUnsent = 65536;
constexpr size_t kLargeReply = 65536;

bool names_region(const inference::ModelInferRequest& message) {
  const auto named = [](const auto& tensor) {
    return tensor.parameters().count("shared_memory_region") > 0;
  };
  return std::any_of(message.inputs().begin(), message.inputs().end(), named) ||
         std::any_of(message.outputs().begin(), message.outputs().end(), named);
}

// Answers come in the order of the requests, whatever the order in which they are computed. In a
// stream, what is wrong with one request is said in its answer and leaves the others alone.
class InferCall final : public GrpcCall {
 public:
  using GrpcCall::GrpcCall;

  bool is_busy() const override { return !exchanges_.empty() || unsent() > 0; }
  void on_sent() override { send_answers(); }

  void on_drain() override {
    if (!method_.takes_stream()) return;
    is_draining_ = true;
    send_answers();
  }

 private:
  // A request and its answer. Other threads write what is_done then hands to the connection's.
  struct Exchange {
    const std::shared_ptr<std::atomic<bool>> cancelled = std::make_shared<std::atomic<bool>>(false);
    std::string id;
    std::vector<SharedOutput> shared_outputs;
    bool marks_final_response = false;
    GrpcStatus status;
    GrpcReply reply;
    bool is_done = false;  // on the connection's thread
  };

  // An exchange while other threads have it.
  struct Work {
    Work(std::shared_ptr<InferCall> its_call, std::shared_ptr<Exchange> its_exchange,
         GrpcDecoding its_message)
        : token(its_call->front_.work),
          call(std::move(its_call)),
          exchange(std::move(its_exchange)),
          message(std::move(its_message)) {}
    WorkCount::Token token;
    const std::shared_ptr<InferCall> call;
    const std::shared_ptr<Exchange> exchange;
    GrpcDecoding message;
    const steady_clock::time_point arrived = steady_clock::now();
  };
  using WorkPointer = std::shared_ptr<Work>;

  bool wants_message() const override {
    return !is_draining_ &&
           exchanges_.size() < static_cast<size_t>(front_.options.max_stream_requests);
  }

  void on_message(GrpcMessage message) override {
    const auto self = std::static_pointer_cast<InferCall>(shared_from_this());
    const auto& exchange = exchanges_.emplace_back(std::make_shared<Exchange>());
    const auto work = std::make_shared<Work>(self, exchange, decoding_of(std::move(message)));
    const GrpcStatus status = decode(work->message, [work] { work->call->begin_request(work); });
    if (!status.ok()) respond(work, status, {});
  }

  void on_all_received() override { send_answers(); }

  void on_cancelled() override {
    for (const auto& exchange : exchanges_) *exchange->cancelled = true;
    exchanges_.clear();
  }

  // ---- on any thread ----

  using Request = Parsed<inference::ModelInferRequest>;

  std::shared_ptr<const Request> read(GrpcDecoding& from) const {
    const GrpcMessage bytes = from.take();
    const auto request = std::make_shared<Request>();
    request->lease = lease_of(front_.options.memory_budget, bytes.size());
    parse(bytes.bytes(), *request);
    return request;
  }

  void begin_request(const WorkPointer& work) {
    if (is_cancelled()) return;
    DecodedInfer decoded;
    const GrpcStatus status = status_from([&] {
      const std::shared_ptr<const Request> request = read(work->message);
      const inference::ModelInferRequest& message = request->message;
      work->exchange->id = message.id();
      if (front_.options.access != nullptr && names_region(message))
        front_.options.access->require_shared_memory(is_local_);
      decoded = decode_infer({request, &message}, front_.regions, front_.options.memory_budget,
                             request->lease.bytes());
    });
    if (!status.ok()) return respond(work, status, {});
    work->exchange->shared_outputs = std::move(decoded.shared_outputs);
    work->exchange->marks_final_response = decoded.marks_final_response;
    if (decoded.change) return change_items(work, std::move(decoded.request), *decoded.change);
    decoded.request->cancelled = work->exchange->cancelled;
    decoded.request->arrived = work->arrived;
    front_.service.infer(std::move(decoded.request), [work](InferResult result) {
      try {
        work->call->answer(work, std::move(result));
      } catch (...) {
        log_caught("an answer over gRPC");
      }
    });
  }

  // Changes are made in the order in which they come.
  void change_items(const WorkPointer& work, std::shared_ptr<const InferRequest> items,
                    ItemChange change) {
    const auto call = [work, items, change] {
      InferCall& self = *work->call;
      if (self.is_cancelled()) return;
      inference::ModelInferResponse response;
      const GrpcStatus status = status_from([&] {
        encode(items->model, self.front_.service.change_items(*items, change), response);
        response.set_id(items->id);
      });
      self.respond(work, status, std::move(response));
    };
    const GrpcStatus status = status_from([&] {
      // Requests of a stream are decoded side by side.
      EMBLEM_REQUIRE(!method_.takes_stream(),
                     "items are changed by ModelInfer, not by ModelStreamInfer");
      if (!may_change_items())
        throw Error(ErrorCode::kPermissionDenied,
                    cat("changing items needs access to the API ", name_of(Api::kModelRepository),
                        ": its token or header"));
      if (!front_.item_calls.add(call))
        throw Error(ErrorCode::kUnavailable,
                    "too many changes of items wait; send fewer at a time, with more items");
    });
    if (!status.ok()) respond(work, status, {});
  }

  void answer(const WorkPointer& work, InferResult result) {
    if (is_cancelled()) return;
    if (const Error* error = std::get_if<Error>(&result))
      return respond(work, GrpcStatus(*error), {});
    inference::ModelInferResponse response;
    MemoryBudget::Lease copy = lease_of(front_.options.memory_budget);  // memory of the outputs
    const GrpcStatus status = status_from([&] {
      for (const OutputTensor& output : std::get<InferResponse>(result).outputs)
        copy.grow(output.data.size());
      encode_response(std::get<InferResponse>(std::move(result)), work->exchange->shared_outputs,
                      response);
    });
    respond(work, status, std::move(response));
  }

  void respond(const WorkPointer& work, const GrpcStatus& status,
               inference::ModelInferResponse response) {
    Exchange& exchange = *work->exchange;
    exchange.status = status;
    if (method_.takes_stream()) {
      const auto write = [&](const GrpcStatus& outcome) {
        return status_from([&] {
          exchange.reply = reply_of(stream_response(exchange, outcome, std::move(response)));
        });
      };
      exchange.status = write(status);
      // An answer that there is no memory for is one more thing that an answer says.
      if (!exchange.status.ok()) exchange.status = write(exchange.status);
    } else if (status.ok()) {
      exchange.status = status_from([&] { exchange.reply = reply_of(response); });
    }
    if (!exchange.status.ok() || !should_compress(exchange.reply)) return hand_over(work);
    const auto compressing = [work] {
      status_from([&] { work->call->compress_reply(work->exchange->reply); });
      hand_over(work);
      return false;
    };
    const bool is_large = exchange.reply.framed.size() > kLargeReply;
    if (!is_large || !try_work(compressing)) compressing();
  }

  static inference::ModelStreamInferResponse stream_response(
      const Exchange& exchange, const GrpcStatus& status, inference::ModelInferResponse response) {
    inference::ModelStreamInferResponse whole;
    inference::ModelInferResponse& infer = *whole.mutable_infer_response();
    if (status.ok()) {
      infer = std::move(response);
    } else {
      // The id lets the client know which request it was.
      infer.set_id(exchange.id);
      whole.set_error_message(status.message);
    }
    if (exchange.marks_final_response) {
      const std::string key = "triton_final_response";
      (*infer.mutable_parameters())[key].set_bool_param(true);
    }
    return whole;
  }

  static void hand_over(const WorkPointer& work) {
    work->call->loop().run([call = work->call, exchange = work->exchange] {
      exchange->is_done = true;
      call->send_answers();
    });
  }

  // ---- on the connection's thread ----

  void send_answers() {
    while (is_open() && !exchanges_.empty() && exchanges_.front()->is_done &&
           unsent() < kMostUnsent) {
      const std::shared_ptr<Exchange> exchange = std::move(exchanges_.front());
      exchanges_.pop_front();
      if (!exchange->status.ok()) return finish(exchange->status);
      send(std::move(exchange->reply));
      if (!method_.takes_stream()) return finish({});
    }
    if (exchanges_.empty() && method_.takes_stream()) {
      if (is_draining_) return finish({GrpcCode::kUnavailable, "the server is shutting down"});
      if (has_all_messages()) return finish({});
    }
    if (wants_message()) resume();
  }

  std::deque<std::shared_ptr<Exchange>> exchanges_;  // in the order of the requests
  bool is_draining_ = false;
};

}  // namespace

std::shared_ptr<GrpcCall> make_infer_call(GrpcFrontEnd& front, const GrpcMethod& method,
                                          const Http2Peer& peer, Http2Stream& stream) {
  return std::make_shared<InferCall>(front, method, peer, stream);
}

}  // namespace emblem
