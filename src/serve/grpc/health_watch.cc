// Notifies a client whether the server is ready, now and whenever that changes.
#include "serve/grpc/call_kinds.h"
#include "serve/grpc/parsed.h"

namespace emblem {
namespace {

class HealthWatch final : public GrpcCall {
 public:
  using GrpcCall::GrpcCall;

  bool is_busy() const override { return false; }
  void on_tick(std::chrono::steady_clock::time_point now) override {
    GrpcCall::on_tick(now);
    look();
  }
  void on_drain() override {
    look();
    finish({GrpcCode::kUnavailable, "the server is shutting down"});
  }

 private:
  using Response = grpc::health::v1::HealthCheckResponse;

  void on_message(GrpcMessage message) override {
    // Parsed on the connection's thread: requests are small.
    Parsed<grpc::health::v1::HealthCheckRequest> parsed{lease_of(front_.options.memory_budget), {}};
    parse(decoding_of(std::move(message)).take().bytes(), parsed);
    request_.set_service(parsed.message.service());
    has_request_ = true;
    look();
  }

  Response::ServingStatus current() const {
    Response response;
    const GrpcStatus status = status_from([&] { front_.calls.answer(request_, response); });
    return status.ok() ? response.status() : Response::SERVICE_UNKNOWN;
  }

  void look() {
    if (!has_request_ || !is_open() || unsent() > 0) return;
    const Response::ServingStatus now = current();
    if (now == told_) return;
    told_ = now;
    const GrpcStatus status = status_from([&] {
      Response response;
      response.set_status(now);
      send(reply_of(response));
    });
    if (!status.ok()) finish(status);
  }

  grpc::health::v1::HealthCheckRequest request_;
  bool has_request_ = false;
  Response::ServingStatus told_ = Response::UNKNOWN;
};

}  // namespace

std::shared_ptr<GrpcCall> make_health_watch(GrpcFrontEnd& front, const GrpcMethod& method,
                                            const Http2Peer& peer, Http2Stream& stream) {
  return std::make_shared<HealthWatch>(front, method, peer, stream);
}

}  // namespace emblem
