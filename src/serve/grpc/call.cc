#include "serve/grpc/call.h"

#include <google/protobuf/message_lite.h>

#include <algorithm>
#include <utility>

namespace emblem {
namespace {

constexpr size_t kSmallestToCompress = 1024;
constexpr size_t kOpenCallBytes = 2048;  // of a call and its stream; a client may open thousands
constexpr std::string_view kContentType = "application/grpc";
constexpr std::string_view kAcceptEncoding = "identity, deflate, gzip";

// Limit of a request of the method.
size_t max_bytes_of(const GrpcMethod& method, const GrpcFrontEnd& front) {
  const auto most = static_cast<size_t>(front.options.max_message_bytes);
  return method.has_payload ? most : std::min(most, kSmallRequestBytes);
}

}  // namespace

GrpcCall::GrpcCall(GrpcFrontEnd& front, const GrpcMethod& method, const Http2Peer& peer,
                   Http2Stream& stream)
    : front_(front),
      method_(method),
      is_local_(peer.is_local),
      client_(peer.client),
      loop_(peer.loop),
      stream_(&stream),
      reader_(max_bytes_of(method, front), front.options.memory_budget),
      backlog_lease_(lease_of(front.options.memory_budget)),
      open_lease_(lease_of(front.options.memory_budget)),
      receiving_since_(front.options.clock()) {}

// ---- the header ----

void GrpcCall::begin(const Http2Headers& headers, const Http2Peer& peer) {
  const GrpcStatus status = status_from([&] {
    if (peer.is_refused)
      throw Error(ErrorCode::kUnavailable,
                  cat("the server has its ", front_.options.max_connections,
                      " connections; try again later, or start it with a larger "
                      "--max-connections"));
    authorize(headers);
    if (method_.stays_open()) open_lease_.grow(kOpenCallBytes);
    read_encodings(headers);
    set_deadline(headers.find("grpc-timeout"), peer.context);
  });
  if (!status.ok()) finish(status);
}

void GrpcCall::authorize(const Http2Headers& headers) {
  if (front_.options.access == nullptr) return;
  // Which of several counts is a matter of taste, also of proxies on the way.
  EMBLEM_REQUIRE(headers.count("authorization") <= 1, "duplicate authorization header");
  const Caller caller{headers.find("authorization"), is_local_,
                      [&](const std::string& name) { return headers.find(name); }};
  front_.options.access->require(method_.api, caller);
  may_change_items_ = front_.options.access->opens(Api::kModelRepository, caller);
}

void GrpcCall::read_encodings(const Http2Headers& headers) {
  const std::string_view name = headers.find("grpc-encoding");
  const auto encoding = grpc_encoding_from_name(name);
  if (!encoding)
    throw Error(ErrorCode::kUnsupported,
                cat("grpc-encoding \"", name, "\" is not supported; expected ", kAcceptEncoding));
  encoding_ = *encoding;
  // Answers are compressed for clients that compress their requests.
  if (accepts(headers.find("grpc-accept-encoding"), encoding_)) answer_encoding_ = encoding_;
}

void GrpcCall::set_deadline(std::string_view timeout, boost::asio::io_context& context) {
  if (timeout.empty()) return;
  const auto time = parse_grpc_timeout(timeout);
  EMBLEM_REQUIRE(time, "grpc-timeout \"", timeout,
                 "\" is not valid; expected up to 8 digits and one of H M S m u n");
  deadline_.emplace(context, *time);
  deadline_->async_wait([weak = weak_from_this()](boost::system::error_code error) {
    const auto self = weak.lock();
    if (error || !self || !self->is_open()) return;
    self->finish({GrpcCode::kDeadlineExceeded, "Deadline Exceeded"});
    self->cancel();
  });
}

// ---- requests ----

bool GrpcCall::is_receiving() const {
  if (is_finished_ || has_ended_ || !backlog_.empty()) return false;
  return reader_.is_inside() || !method_.takes_stream();
}

void GrpcCall::on_tick(std::chrono::steady_clock::time_point now) {
  if (!is_receiving()) return;
  if (now <= receiving_since_ + transfer_time(front_.options.read_timeout, received_)) return;
  finish({GrpcCode::kDeadlineExceeded, "the request did not arrive in time"});
}

void GrpcCall::on_data(std::span<const std::byte> bytes) {
  if (!is_open()) return;
  received_ += bytes.size();
  const GrpcStatus status = status_from([&] { take(bytes); });
  if (!status.ok()) finish(status);
}

void GrpcCall::take(std::span<const std::byte> bytes) {
  const size_t before = bytes.size();
  is_taking_ = true;
  while (!bytes.empty() && is_open() && backlog_.empty() && wants_message()) {
    if (!reader_.is_inside()) {
      receiving_since_ = front_.options.clock();
      received_ = bytes.size();
    }
    if (auto message = reader_.read(bytes)) take_message(std::move(*message));
  }
  is_taking_ = false;
  if (!is_open()) return;
  stream_->consume(before - bytes.size());
  if (bytes.empty()) return;
  // The backlog is at most the window of the stream.
  backlog_lease_.grow(bytes.size());
  backlog_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void GrpcCall::take_message(GrpcMessage message) {
  if (message.is_compressed && encoding_ == ContentEncoding::kIdentity)
    throw Error(ErrorCode::kInternal, "a message is compressed, but there is no grpc-encoding");
  if (method_.takes_stream()) return on_message(std::move(message));
  if (single_) throw Error(ErrorCode::kInternal, "the call has more than one message");
  single_ = std::move(message);
}

void GrpcCall::resume() {
  if (!is_open() || is_taking_ || (backlog_.empty() && (!has_ended_ || has_all_messages_))) return;
  const GrpcStatus status = status_from([&] {
    const std::string bytes = std::exchange(backlog_, {});
    backlog_lease_.shrink(backlog_lease_.bytes());
    take(std::as_bytes(std::span(bytes)));
    take_end();
  });
  if (!status.ok()) finish(status);
}

void GrpcCall::on_end() {
  has_ended_ = true;
  if (!is_open()) return;
  const GrpcStatus status = status_from([this] { take_end(); });
  if (!status.ok()) finish(status);
}

void GrpcCall::take_end() {
  if (!has_ended_ || !backlog_.empty() || has_all_messages_ || !is_open()) return;
  has_all_messages_ = true;
  if (reader_.is_inside())
    throw Error(ErrorCode::kInvalidArgument, "the request ends within a message");
  if (!method_.takes_stream()) {
    if (!single_) throw Error(ErrorCode::kInternal, "the call has no message");
    on_message(*std::exchange(single_, std::nullopt));
  }
  if (is_open()) on_all_received();
}

void GrpcCall::cancel() {
  if (is_cancelled_.exchange(true)) return;
  deadline_.reset();
  on_cancelled();
}

void GrpcCall::on_closed() {
  stream_ = nullptr;
  open_lease_.shrink(open_lease_.bytes());
  backlog_ = {};
  backlog_lease_.shrink(backlog_lease_.bytes());
  single_.reset();
  cancel();
}

GrpcDecoding GrpcCall::decoding_of(GrpcMessage message) const {
  return {std::move(message), encoding_, max_bytes_of(method_, front_),
          front_.options.memory_budget};
}

bool GrpcCall::try_work(WorkerPool::Job job) const {
  return front_.decoding.try_add(client_, std::move(job));
}

GrpcStatus GrpcCall::decode(GrpcDecoding& message, std::function<void()> act) {
  if (!message.is_long()) {
    act();
    return {};
  }
  if (try_work([this, &message, act = std::move(act)] {
        if (!is_cancelled() && message.step()) return true;
        act();
        return false;
      }))
    return {};
  return {GrpcCode::kUnavailable, "too many messages wait to be decoded; try again later"};
}

// ---- responses ----

GrpcReply GrpcCall::reply_of(const google::protobuf::MessageLite& message) const {
  const size_t bytes = message.ByteSizeLong();
  if (bytes > static_cast<size_t>(INT32_MAX))
    throw Error(ErrorCode::kOutOfMemory, "the response has more than 2 GiB");
  GrpcReply reply{{}, lease_of(front_.options.memory_budget)};
  reply.lease.grow(bytes);
  reply.framed.resize(kGrpcPrefixBytes + bytes);
  message.SerializeWithCachedSizesToArray(
      reinterpret_cast<uint8_t*>(reply.framed.data() + kGrpcPrefixBytes));
  write_prefix(reply.framed, /*is_compressed=*/false);
  return reply;
}

bool GrpcCall::should_compress(const GrpcReply& reply) const {
  return answer_encoding_ != ContentEncoding::kIdentity &&
         reply.framed.size() >= kSmallestToCompress;
}

void GrpcCall::compress_reply(GrpcReply& reply) const {
  MemoryBudget::Lease lease = lease_of(front_.options.memory_budget);
  if (!lease.try_grow(reply.framed.size())) return;  // without memory for that, it stays as it is
  compress(reply.framed, answer_encoding_);
}

void GrpcCall::send(GrpcReply reply) {
  if (!is_open()) return;
  if (!has_responded_) {
    has_responded_ = true;
    Http2Fields fields = {{":status", "200"},
                          {"content-type", kContentType},
                          {"grpc-accept-encoding", kAcceptEncoding}};
    if (answer_encoding_ != ContentEncoding::kIdentity)
      fields.emplace_back("grpc-encoding", name_of(answer_encoding_));
    stream_->respond(fields);
  }
  stream_->write(std::move(reply.framed), std::move(reply.lease));
}

void GrpcCall::finish(const GrpcStatus& status) {
  if (!is_open()) return;
  is_finished_ = true;
  deadline_.reset();
  const std::string code = std::to_string(static_cast<int>(status.code));
  const std::string message = percent_encoded(status.message);
  Http2Fields fields = {{"grpc-status", code}};
  if (!message.empty()) fields.emplace_back("grpc-message", message);
  if (has_responded_) return stream_->finish(fields);
  fields.insert(fields.begin(), {{":status", "200"}, {"content-type", kContentType}});
  fields.emplace_back("grpc-accept-encoding", kAcceptEncoding);
  stream_->respond_only(fields);
}

}  // namespace emblem
