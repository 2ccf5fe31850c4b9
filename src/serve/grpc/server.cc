#include "serve/grpc/server.h"

#include "core/file.h"
#include "core/start_thread.h"
#include "serve/grpc/front_end.h"
#include "serve/grpc/process.h"
#include "serve/protocol/status.h"
#include "serve/protocol/token.h"

namespace emblem {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLookInterval{200};
// In addition to those for calls: one for health watches, and those that gRPC starts for itself,
// without which it aborts or hangs.
constexpr int kGrpcThreads = 12;
// In the trailing metadata, of which clients accept 8 KiB, each byte may take three.
constexpr size_t kMostMessageBytes = 2000;

std::string listening_address(const GrpcServerOptions& options) {
  const bool bare_v6 =
      options.address.find(':') != std::string::npos && !options.address.starts_with('[');
  return cat(bare_v6 ? "[" + options.address + "]" : options.address, ":", options.port);
}

std::shared_ptr<grpc::ServerCredentials> credentials(const GrpcServerOptions& options) {
  EMBLEM_REQUIRE(options.tls_certificate.empty() == options.tls_key.empty(),
                 "gRPC over TLS needs a certificate and a key: only one of the files is given");
  if (options.tls_certificate.empty()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions ssl;
  ssl.pem_key_cert_pairs.push_back(
      {read_text_file(options.tls_key), read_text_file(options.tls_certificate)});
  return grpc::SslServerCredentials(ssl);
}

void set_up(grpc::ServerBuilder& builder, const GrpcServerOptions& options) {
  EMBLEM_REQUIRE(options.threads >= 1, "gRPC needs at least one thread, not ", options.threads);
  EMBLEM_REQUIRE(options.max_message_bytes >= 1 && options.max_message_bytes <= INT32_MAX,
                 "the largest gRPC message must have 1 byte to 2 GiB, not ",
                 options.max_message_bytes);
  EMBLEM_REQUIRE(options.max_stream_requests >= 1,
                 "a gRPC stream needs at least one request under way, not ",
                 options.max_stream_requests);
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
  builder.SetMaxSendMessageSize(INT32_MAX);
  // Otherwise a second server on the same port would take half of the connections.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Clients may keep idle connections alive; those that vanish are noticed.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 120'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  if (options.accept_compressed) return;
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
}

}  // namespace

// ---- statuses ----

grpc::Status status_of(const Error& error) {
  return {static_cast<grpc::StatusCode>(grpc_status(error.code())),
          std::string(error.what()).substr(0, kMostMessageBytes)};
}

grpc::Status GrpcFrontEnd::authorize(const grpc::ServerContext& context) const {
  if (options.bearer_token.empty()) return grpc::Status::OK;
  const auto found = context.client_metadata().find("authorization");
  if (found != context.client_metadata().end() &&
      carries_token({found->second.data(), found->second.size()}, options.bearer_token))
    return grpc::Status::OK;
  return {grpc::StatusCode::UNAUTHENTICATED,
          "the call needs the server's token in its metadata: \"authorization: Bearer TOKEN\""};
}

// ---- queues ----

void GrpcQueue::start() {
  thread_ = start_thread("gRPC calls", [this] {
    void* tag = nullptr;
    bool ok = false;
    while (queue_->Next(&tag, &ok)) {
      try {
        static_cast<GrpcEvent*>(tag)->happened(ok);
      } catch (...) {
        log_caught("a gRPC call");
      }
    }
  });
}

GrpcQueue::~GrpcQueue() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  queue_->Shutdown();
  if (thread_.joinable()) {
    thread_.join();
    return;
  }
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) {
  }
}

// ---- calls under way ----

void CallsUnderWay::Token::take(CallsUnderWay& calls) {
  std::lock_guard lock(calls.mutex_);
  ++calls.count_;
  calls_ = &calls;
}

CallsUnderWay::Token::~Token() {
  if (calls_ == nullptr) return;
  // Notified with the lock held: once it is free, the last call's end may end the server too.
  std::lock_guard lock(calls_->mutex_);
  if (--calls_->count_ == 0 && calls_->draining_) calls_->none_left_.notify_all();
}

bool CallsUnderWay::add(std::shared_ptr<LongGrpcCall> call) {
  std::lock_guard lock(mutex_);
  if (draining_) return false;
  long_.insert(std::move(call));
  long_changed_.notify_all();
  return true;
}

void CallsUnderWay::remove(const std::shared_ptr<LongGrpcCall>& call) {
  std::lock_guard lock(mutex_);
  long_.erase(call);
}

std::vector<std::shared_ptr<LongGrpcCall>> CallsUnderWay::long_calls() const {
  std::lock_guard lock(mutex_);
  return {long_.begin(), long_.end()};
}

void CallsUnderWay::drain() {
  {
    std::lock_guard lock(mutex_);
    draining_ = true;
  }
  for (const auto& call : long_calls()) call->drain();
}

void CallsUnderWay::wait_until_none() {
  std::unique_lock lock(mutex_);
  none_left_.wait(lock, [this] { return count_ == 0; });
}

void CallsUnderWay::look_regularly() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      long_changed_.wait(lock, [this] { return stopped_ || !long_.empty(); });
      if (long_changed_.wait_for(lock, kLookInterval, [this] { return stopped_; })) return;
    }
    try {
      for (const auto& call : long_calls()) call->look();
    } catch (...) {
      log_caught("gRPC health watches");
    }
  }
}

void CallsUnderWay::stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
  long_changed_.notify_all();
}

// ---- the server ----

struct GrpcServer::State {
  State(const GrpcServerOptions& options, InferenceService& service, SharedMemoryRegions& regions)
      : front(options, service, regions) {}

  GrpcFrontEnd front;
  std::vector<std::unique_ptr<GrpcQueue>> queues;
  std::unique_ptr<grpc::Server> server;
  std::thread looking;
  std::once_flag drained;
  int port = 0;
};

GrpcServer::GrpcServer(const GrpcServerOptions& options, InferenceService& service,
                       SharedMemoryRegions& regions)
    : state_(std::make_unique<State>(options, service, regions)) {
  require_threads(options.threads + kGrpcThreads, "gRPC");
  set_up_grpc();
  grpc::ServerBuilder builder;
  set_up(builder, options);
  const std::string address = listening_address(options);
  builder.AddListeningPort(address, credentials(options), &state_->port);
  builder.RegisterService(&state_->front.protocol);
  builder.RegisterService(&state_->front.health);
  for (int i = 0; i < options.threads; ++i)
    state_->queues.push_back(std::make_unique<GrpcQueue>(builder.AddCompletionQueue()));
  state_->server = builder.BuildAndStart();
  if (state_->server == nullptr || state_->port == 0)
    throw Error(ErrorCode::kUnavailable,
                cat("cannot listen for gRPC on ", address,
                    "; is the port in use, or the certificate or its key unreadable?"));
  try {
    for (auto& queue : state_->queues) {
      accept_plain_calls(state_->front, *queue);
      accept_health_watches(state_->front, *queue);
      accept_infer_calls(state_->front, *queue);
      accept_infer_streams(state_->front, *queue);
      queue->start();
    }
    state_->looking =
        start_thread("gRPC health watches", [this] { state_->front.under_way.look_regularly(); });
  } catch (...) {
    drain(milliseconds(0));
    throw;
  }
}

GrpcServer::~GrpcServer() { drain(milliseconds(0)); }

uint16_t GrpcServer::port() const { return static_cast<uint16_t>(state_->port); }

void GrpcServer::drain(milliseconds patience) {
  std::call_once(state_->drained, [&] {
    state_->front.calls.start_draining();
    state_->front.under_way.drain();
    state_->server->Shutdown(std::chrono::system_clock::now() + patience);
    state_->front.under_way.wait_until_none();
    state_->front.under_way.stop();
    if (state_->looking.joinable()) state_->looking.join();
    state_->queues.clear();
  });
}

}  // namespace emblem
