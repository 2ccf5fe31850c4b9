#include "serve/grpc/server.h"

#include "serve/grpc/call_kinds.h"
#include "serve/net/server.h"

namespace emblem {
namespace {

using std::chrono::milliseconds;

void check(const GrpcServerOptions& options) {
  EMBLEM_REQUIRE(options.max_message_bytes >= 1 && options.max_message_bytes <= INT32_MAX,
                 "the largest gRPC message must have 1 byte to 2 GiB, not ",
                 options.max_message_bytes);
  EMBLEM_REQUIRE(options.max_stream_requests >= 1,
                 "a gRPC stream needs at least one request under way, not ",
                 options.max_stream_requests);
}

// A request that was answered when its header came.
class Refused final : public Http2Handler {
 public:
  void on_data(std::span<const std::byte>) override {}
  void on_end() override {}
  void on_closed() override {}
};

std::shared_ptr<Http2Handler> refuse(Http2Stream& stream, const Http2Fields& fields) {
  stream.respond_only(fields);
  return std::make_shared<Refused>();
}

// "application/grpc", alone or followed by "+proto" or a parameter.
bool is_grpc(std::string_view content_type) {
  constexpr std::string_view kGrpc = "application/grpc";
  if (!content_type.starts_with(kGrpc)) return false;
  return content_type.size() == kGrpc.size() || content_type[kGrpc.size()] == '+' ||
         content_type[kGrpc.size()] == ';';
}

MakeGrpcCall* maker_of(GrpcMethod::Kind kind) {
  switch (kind) {
    case GrpcMethod::Kind::kInfer:
    case GrpcMethod::Kind::kInferStream:
      return make_infer_call;
    case GrpcMethod::Kind::kHealthWatch:
      return make_health_watch;
    case GrpcMethod::Kind::kAnswer:
    case GrpcMethod::Kind::kAnswerEach:
      break;
  }
  return make_answer_call;
}

std::shared_ptr<Http2Handler> open_call(GrpcFrontEnd& front, const Http2Peer& peer,
                                        Http2Stream& stream, const Http2Headers& headers) {
  if (headers.find(":method") != "POST")
    return refuse(stream, {{":status", "405"}, {"allow", "POST"}});
  if (!is_grpc(headers.find("content-type"))) return refuse(stream, {{":status", "415"}});
  const std::string_view path = headers.find(":path");
  const auto method = front.methods.find(path);
  if (method == front.methods.end()) {
    const std::string message = percent_encoded(cat("there is no method ", path.substr(0, 200)));
    return refuse(stream, {{":status", "200"},
                           {"content-type", "application/grpc"},
                           {"grpc-status", "12"},
                           {"grpc-message", message}});
  }
  const auto call = maker_of(method->second.kind)(front, method->second, peer, stream);
  call->begin(headers, peer);
  return call;
}

}  // namespace

struct GrpcServer::State {
  State(const GrpcServerOptions& options, InferenceService& service, SharedMemoryRegions& regions)
      : front(options, service, regions),
        net(options, "gRPC connections", "h2",
            [this](NetShared& shared, NetThread& thread, TcpSocket socket, bool refused) {
              return make_http2_connection(front.options.http2, open, shared, thread,
                                           std::move(socket), refused);
            }) {}

  GrpcFrontEnd front;
  const Http2Open open = [this](const Http2Peer& peer, Http2Stream& stream, Http2Headers headers) {
    return open_call(front, peer, stream, headers);
  };
  NetServer net;
};

GrpcServer::GrpcServer(const GrpcServerOptions& options, InferenceService& service,
                       SharedMemoryRegions& regions) {
  check(options);
  state_ = std::make_unique<State>(options, service, regions);
}

GrpcServer::~GrpcServer() { drain(milliseconds(0)); }

uint16_t GrpcServer::port() const { return state_->net.port(); }
size_t GrpcServer::connections() const { return state_->net.connections(); }

void GrpcServer::drain(milliseconds patience) {
  state_->front.calls.start_draining();
  state_->net.drain(patience);
  state_->front.work.wait_until_none();
}

}  // namespace emblem
