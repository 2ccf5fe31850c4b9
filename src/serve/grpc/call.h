// serve/grpc/call.h - one call: its messages, its deadline, its answer. Kinds of calls derive from
// it (serve/grpc/call_kinds.h). Includes Asio: only for the server's own .cc files.
//
// All methods are called on the connection's thread but those that say otherwise. Whatever else
// happens on other threads refers to the call by a shared_ptr and comes back through loop().
#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>

#include "serve/grpc/compression.h"
#include "serve/grpc/framing.h"
#include "serve/grpc/front_end.h"
#include "serve/grpc/status.h"
#include "serve/http2/connection.h"

namespace google::protobuf {
class MessageLite;
}

namespace emblem {

// A message to send, with its prefix and what it takes of the budget.
struct GrpcReply {
  std::string framed;
  MemoryBudget::Lease lease;
};

class GrpcCall : public Http2Handler, public std::enable_shared_from_this<GrpcCall> {
 public:
  GrpcCall(GrpcFrontEnd& front, const GrpcMethod& method, const Http2Peer& peer,
           Http2Stream& stream);

  // Reads the request's header; refuses the call where that is not in order.
  void begin(const Http2Headers& headers, const Http2Peer& peer);

  void on_data(std::span<const std::byte> bytes) override;
  void on_end() override;
  void on_closed() override;
  void on_tick(std::chrono::steady_clock::time_point now) override;
  bool is_busy() const override { return has_ended_; }

 protected:
  // ---- what a kind of call does ----

  // A complete message; only while wants_message(). What it throws ends the call.
  virtual void on_message(GrpcMessage message) = 0;
  virtual bool wants_message() const { return true; }
  // The client has sent its last message.
  virtual void on_all_received() {}
  // Nothing can be answered any more: the client has gone, or its deadline has passed.
  virtual void on_cancelled() {}

  // ---- what it can use ----

  bool is_open() const { return stream_ != nullptr && !is_finished_; }
  bool has_all_messages() const { return has_all_messages_; }
  size_t unsent() const { return stream_ == nullptr ? 0 : stream_->unsent(); }
  // Takes further messages, after wants_message() has become true again. Within on_message the
  // caller does that.
  void resume();
  void send(GrpcReply reply);
  void finish(const GrpcStatus& status);

  // Thread-safe from here on.
  const Http2Loop& loop() const { return loop_; }
  bool is_cancelled() const { return is_cancelled_; }
  GrpcDecoding decoding_of(GrpcMessage message) const;
  // Runs `act` here when the message is small, otherwise on a thread for that, after the steps of
  // its decoding, which `act` keeps alive. kUnavailable, without `act`, when too many of this
  // client's messages wait.
  [[nodiscard]] GrpcStatus decode(GrpcDecoding& message, std::function<void()> act);
  // Has a worker do it, unless too many of this client's wait: then false.
  [[nodiscard]] bool try_work(WorkerPool::Job job) const;
  // Throws kUnavailable when the budget is exhausted.
  GrpcReply reply_of(const google::protobuf::MessageLite& message) const;
  // Whether a reply should be compressed, and doing so.
  bool should_compress(const GrpcReply& reply) const;
  void compress_reply(GrpcReply& reply) const;

  GrpcFrontEnd& front_;
  const GrpcMethod& method_;
  // Whether the client may change items, which the API of the repository opens.
  bool may_change_items() const { return may_change_items_; }

  const bool is_local_;
  const ClientKey client_;

 private:
  void authorize(const Http2Headers& headers);
  void read_encodings(const Http2Headers& headers);
  void set_deadline(std::string_view timeout, boost::asio::io_context& context);
  void take(std::span<const std::byte> bytes);
  void take_message(GrpcMessage message);
  void take_end();
  void cancel();
  // Whether the client is to send the rest of a message.
  bool is_receiving() const;

  const Http2Loop loop_;
  Http2Stream* stream_;  // null once the stream is over
  std::optional<boost::asio::steady_timer> deadline_;
  ContentEncoding encoding_ = ContentEncoding::kIdentity;         // encoding of requests
  ContentEncoding answer_encoding_ = ContentEncoding::kIdentity;  // encoding of large answers

  GrpcFrameReader reader_;
  std::optional<GrpcMessage> single_;  // until the end of a call with one message
  std::string backlog_;                // bytes that arrived while no message was wanted
  MemoryBudget::Lease backlog_lease_, open_lease_;
  std::chrono::steady_clock::time_point receiving_since_;
  size_t received_ = 0;  // bytes since then

  bool may_change_items_ = true;
  bool is_taking_ = false;         // messages, now
  bool has_ended_ = false;         // the client has sent all
  bool has_all_messages_ = false;  // and all of it has been taken
  bool has_responded_ = false;     // the header has been sent
  bool is_finished_ = false;       // the status, too
  std::atomic<bool> is_cancelled_ = false;
};

}  // namespace emblem
