// All calls but inference and health watches: one message answered by another.
#include <google/protobuf/message.h>

#include "serve/grpc/call_kinds.h"

namespace emblem {
namespace {

class AnswerCall final : public GrpcCall {
 public:
  using GrpcCall::GrpcCall;

  bool is_busy() const override { return is_answering_ || GrpcCall::is_busy(); }
  void on_drain() override {
    if (!method_.takes_stream()) return;
    is_draining_ = true;
    if (!is_answering_) finish({GrpcCode::kUnavailable, "the server is shutting down"});
  }

 private:
  // Work on its way from the connection's thread to another and back.
  struct Work {
    Work(GrpcFrontEnd& front, GrpcDecoding its_message)
        : token(front.work), message(std::move(its_message)) {}
    WorkCount::Token token;
    GrpcDecoding message;
  };
  struct Answer {
    GrpcStatus status;
    GrpcReply reply;
  };

  bool wants_message() const override { return !is_answering_; }

  void on_message(GrpcMessage message) override {
    is_answering_ = true;
    const auto work = std::make_shared<Work>(front_, decoding_of(std::move(message)));
    const auto act = [self = std::static_pointer_cast<AnswerCall>(shared_from_this()), work] {
      self->answer(work->message);
    };
    const GrpcStatus status = method_.is_slow ? add_slow(act) : decode(work->message, act);
    if (!status.ok()) finish(status);
  }

  GrpcStatus add_slow(const std::function<void()>& act) const {
    if (front_.slow_calls.add(act)) return {};
    return {GrpcCode::kUnavailable, "too many models wait to be loaded or unloaded"};
  }

  // Runs on any thread.
  void answer(GrpcDecoding& message) {
    if (is_cancelled()) return;
    auto answer = std::make_shared<Answer>();
    answer->status = status_from([&] {
      const GrpcMessage request = message.take();
      answer->reply = reply_of(*method_.answer(front_, request.bytes()));
      if (should_compress(answer->reply)) compress_reply(answer->reply);
    });
    loop().run([self = std::static_pointer_cast<AnswerCall>(shared_from_this()), answer] {
      self->on_answer(*answer);
    });
  }

  void on_answer(Answer& answer) {
    is_answering_ = false;
    if (!answer.status.ok()) return finish(answer.status);
    send(std::move(answer.reply));
    if (!method_.takes_stream()) return finish({});
    if (is_draining_) return on_drain();
    if (has_all_messages()) return finish({});
    resume();
  }

  void on_all_received() override {
    if (method_.takes_stream() && !is_answering_) finish({});
  }

  bool is_answering_ = false, is_draining_ = false;
};

}  // namespace

std::shared_ptr<GrpcCall> make_answer_call(GrpcFrontEnd& front, const GrpcMethod& method,
                                           const Http2Peer& peer, Http2Stream& stream) {
  return std::make_shared<AnswerCall>(front, method, peer, stream);
}

}  // namespace emblem
