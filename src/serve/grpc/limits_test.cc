// Clients that stall, flood, lie or ask for too much; each alone with its frames.
#include <gmock/gmock.h>

#include <condition_variable>

#include "serve/grpc/compression.h"
#include "serve/grpc/raw_client_test.h"
#include "serve/grpc/test_server_test.h"
#include "serve/http/status/test_clock_test.h"

namespace emblem {
namespace {

using grpc::ClientContext;
using grpc::StatusCode;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

const std::string kInfer = "/inference.GRPCInferenceService/ModelInfer";
const std::string kStreamInfer = "/inference.GRPCInferenceService/ModelStreamInfer";
const std::string kLive = "/inference.GRPCInferenceService/ServerLive";

bool is_live(uint16_t port) {
  RawClient client(port);
  client.call(1, kLive, "");
  return client.answer(1)["grpc-status"] == "0";
}

// Looks at its deadlines often, but its time only passes when a test says so.
GrpcServerOptions with_clock(TestClock& clock) {
  GrpcServerOptions options;
  options.clock = clock.function();
  options.read_timeout = milliseconds(40);
  options.idle_timeout = milliseconds(400);
  return options;
}

TEST(GrpcLimits, AnswersWhatIsNoCallOfItsMethods) {
  GrpcTestServer test;
  RawClient client(test.server->port());
  client.call(1, "/inference.GRPCInferenceService/NoSuch", "");
  RawClient::Headers answer = client.answer(1);
  EXPECT_EQ(answer["grpc-status"], "12");
  EXPECT_EQ(answer["grpc-message"], "there is no method /inference.GRPCInferenceService/NoSuch");
  EXPECT_EQ(answer["content-type"], "application/grpc");

  const std::string post = "\x83\x86" + literal(":path", kLive) + literal(":authority", "x");
  client.send(frame(kHeadersFrame, kEndHeaders | kEndStream, 3,
                    post + literal("content-type", "application/json")));
  EXPECT_EQ(client.answer(3)[":status"], "415");
  const std::string get = "\x82\x86" + literal(":path", kLive) + literal(":authority", "x") +
                          literal("content-type", "application/grpc+proto");
  client.send(frame(kHeadersFrame, kEndHeaders | kEndStream, 5, get));
  EXPECT_EQ(client.answer(5)[":status"], "405");
  client.call(7, kLive, "");
  EXPECT_EQ(client.answer(7)["grpc-status"], "0");
}

TEST(GrpcLimits, RefusesMessagesThatCannotBe) {
  GrpcTestServer test;
  RawClient client(test.server->port());
  uint32_t stream = 1;
  const auto call = [&](const std::string& data,
                        const std::vector<std::pair<std::string, std::string>>& more = {}) {
    client.send(frame(kHeadersFrame, kEndHeaders, stream, request_block(kLive, more)) +
                frame(kDataFrame, kEndStream, stream, data));
    stream += 2;
    return client.answer(stream - 2)["grpc-status"];
  };
  const std::string empty(5, '\0');
  EXPECT_EQ(call(empty), "0");
  EXPECT_EQ(call(""), "13");                            // no message
  EXPECT_EQ(call(empty + empty), "13");                 // two
  EXPECT_EQ(call(empty.substr(0, 3)), "3");             // cut off
  EXPECT_EQ(call(std::string("\0\0\0\0\2x", 6)), "3");  // cut off
  EXPECT_EQ(call(std::string("\7\0\0\0\0", 5)), "3");   // no prefix
  EXPECT_EQ(call(std::string("\1\0\0\0\0", 5)), "13");  // compressed, by nothing
  EXPECT_EQ(call(empty, {{"grpc-encoding", "snappy"}}), "12");
  EXPECT_EQ(call(empty, {{"grpc-timeout", "soon"}}), "3");
  EXPECT_EQ(call(std::string("\0\0\0\0\2\xff\xff", 7)), "3");  // not the protobuf
}

// The length is refused before any of the message has come.
TEST(GrpcLimits, RefusesALargeMessageByItsPrefix) {
  GrpcTestServer test({.max_message_bytes = 1000});
  RawClient client(test.server->port());
  client.send(frame(kHeadersFrame, kEndHeaders, 1, request_block(kInfer)) +
              frame(kDataFrame, 0, 1, std::string("\0\x7f\xff\xff\xff", 5)));
  RawClient::Headers answer = client.answer(1);
  EXPECT_EQ(answer["grpc-status"], "8");
  EXPECT_THAT(answer["grpc-message"], HasSubstr("at most 1000"));
}

TEST(GrpcLimits, EndsACallAtItsDeadline) {
  GrpcTestServer test;
  test.service.hold = true;
  RawClient client(test.server->port());
  std::string message(kGrpcPrefixBytes, '\0');
  message += sum_request({1, 2, 3, 4}).SerializeAsString();
  write_prefix(message, false);
  client.send(
      frame(kHeadersFrame, kEndHeaders, 1, request_block(kInfer, {{"grpc-timeout", "200m"}})) +
      frame(kDataFrame, kEndStream, 1, message));
  EXPECT_EQ(client.answer(1)["grpc-status"], "4");
}

TEST(GrpcLimits, EndsARequestThatTricklesIn) {
  TestClock clock;
  GrpcTestServer test(with_clock(clock));
  RawClient client(test.server->port());
  client.send(frame(kHeadersFrame, kEndHeaders, 1, request_block(kInfer)) +
              frame(kDataFrame, 0, 1, std::string("\0\0\0\0\7x", 6)));
  // A stream without a message may wait as long as its client likes.
  client.send(frame(kHeadersFrame, kEndHeaders, 3, request_block(kStreamInfer)));
  client.call(5, kLive, "");
  EXPECT_EQ(client.answer(5)["grpc-status"], "0");  // all have arrived
  clock.advance(milliseconds(100));
  EXPECT_EQ(client.answer(1)["grpc-message"], "the request did not arrive in time");
  client.send(frame(kDataFrame, kEndStream, 3));
  EXPECT_EQ(client.answer(3)["grpc-status"], "0");
}

TEST(GrpcLimits, ResetsStreamsWhoseAnswersAreNotRead) {
  TestClock clock;
  MemoryBudget budget(1 << 20);
  GrpcServerOptions options = with_clock(clock);
  options.memory_budget = &budget;
  GrpcTestServer test(options);
  // INITIAL_WINDOW_SIZE 0: the client takes no byte of an answer.
  RawClient client(test.server->port(), std::string("\0\4", 2) + big_endian(0));
  client.call(1, kInfer, sum_request({1, 2, 3, 4}).SerializeAsString());
  ASSERT_TRUE(client.receive(kHeadersFrame));
  EXPECT_TRUE(becomes_true([&] { return budget.used() > 0; }));
  clock.advance(milliseconds(100));
  ASSERT_TRUE(client.receive(kRstStreamFrame));
  EXPECT_TRUE(becomes_true([&] { return budget.used() == 0; }));
}

TEST(GrpcLimits, ClosesConnectionsThatStayIdleOrSilent) {
  TestClock clock;
  GrpcTestServer test(with_clock(clock));
  RawClient idle(test.server->port()), silent(test.server->port());
  idle.call(1, kLive, "");
  EXPECT_EQ(idle.answer(1)["grpc-status"], "0");
  silent.send(frame(kHeadersFrame, kEndHeaders, 1, request_block(kStreamInfer)));
  silent.call(3, kLive, "");
  EXPECT_EQ(silent.answer(3)["grpc-status"], "0");
  idle.wait_until_read();
  silent.wait_until_read();
  clock.advance(milliseconds(500));
  EXPECT_TRUE(idle.receive(kGoawayFrame));
  EXPECT_TRUE(idle.is_closed_by_server());
  EXPECT_TRUE(silent.receive(kPingFrame));  // it has a stream; does it live?
  clock.advance(milliseconds(500));
  EXPECT_TRUE(silent.is_closed_by_server());
  // One that never says anything.
  RawClient mute(test.server->port());
  EXPECT_TRUE(becomes_true([&] {
    clock.advance(milliseconds(500));
    return test.server->connections() == 0;
  }));
}

TEST(GrpcLimits, ANewConnectionTakesThePlaceOfTheOneThatIsIdleTheLongest) {
  GrpcServerOptions options;
  options.max_connections = 3;
  options.threads = 1;
  GrpcTestServer test(options);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<RawClient>(test.server->port()));
    clients[i]->call(1, kLive, "");
    EXPECT_EQ(clients[i]->answer(1)["grpc-status"], "0");
  }
  EXPECT_TRUE(is_live(test.server->port()));
  EXPECT_TRUE(clients[0]->is_closed_by_server());

  // With requests under way on all, the next one is refused.
  test.service.hold = true;
  for (int i = 0; i < 3; ++i) {
    clients[i] = std::make_unique<RawClient>(test.server->port());
    clients[i]->call(1, kInfer, sum_request({1, 2, 3, 4}).SerializeAsString());
  }
  ASSERT_TRUE(becomes_true([&] { return test.service.held() == 3; }));
  RawClient late(test.server->port());
  late.call(1, kLive, "");
  RawClient::Headers refused = late.answer(1);
  EXPECT_EQ(refused["grpc-status"], "14");
  EXPECT_THAT(refused["grpc-message"], HasSubstr("3 connections"));
  EXPECT_TRUE(late.is_closed_by_server());
  test.service.release();
  for (auto& client : clients) EXPECT_EQ(client->answer(1)["grpc-status"], "0");
}

TEST(GrpcLimits, RequestsAndAnswersStayWithinTheBudget) {
  MemoryBudget budget(300'000);
  GrpcTestServer test({.memory_budget = &budget});
  ModelInferResponse response;
  {
    ClientContext context;
    const auto large = sum_request({1, 2, 3, 4}, std::string(400'000, 'x'));
    const grpc::Status status = test.stub->ModelInfer(&context, large, &response);
    EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_THAT(status.error_message(), HasSubstr("--max-memory"));
  }
  {
    ClientContext context;  // a bomb: expanded it exceeds the budget
    context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
    const auto large = sum_request({1, 2, 3, 4}, std::string(10'000'000, 'x'));
    EXPECT_EQ(test.stub->ModelInfer(&context, large, &response).error_code(),
              StatusCode::RESOURCE_EXHAUSTED);
  }
  EXPECT_TRUE(becomes_true([&] { return budget.used() == 0; }));
  ClientContext context;
  EXPECT_TRUE(test.stub->ModelInfer(&context, sum_request({1, 2, 3, 4}), &response).ok());
  EXPECT_TRUE(becomes_true([&] { return budget.used() == 0; }));
}

// Clients that send half a message hold what they have sent, until they go.
TEST(GrpcLimits, HalfSentMessagesHoldWhatHasArrived) {
  MemoryBudget budget(size_t{1} << 30);
  GrpcTestServer test({.memory_budget = &budget});
  {
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < 40; ++i) {
      clients.push_back(std::make_unique<RawClient>(test.server->port()));
      clients.back()->send(frame(kHeadersFrame, kEndHeaders, 1, request_block(kInfer)) +
                           frame(kDataFrame, 0, 1, std::string("\0\3\xff\xff\xff", 5) + "half"));
      clients.back()->call(3, kLive, "");
      EXPECT_EQ(clients.back()->answer(3)["grpc-status"], "0");
    }
    EXPECT_GT(budget.used(), 0u);
    EXPECT_LE(budget.used(), 40u << 16);
  }
  EXPECT_TRUE(becomes_true([&] { return budget.used() == 0; }));
}

// Its infer() of one request takes as long as the test likes.
class SlowService : public FakeService {
 public:
  void infer(std::unique_ptr<InferRequest> request, InferDone done) override {
    std::unique_lock lock(mutex_);
    asked_.push_back(request->id);
    if (request->id == "slow") {
      ++waiting_;
      changed_.wait(lock, [this] { return is_released_; });
    }
    lock.unlock();
    FakeService::infer(std::move(request), std::move(done));
  }
  void let_go() {
    std::lock_guard lock(mutex_);
    is_released_ = true;
    changed_.notify_all();
  }
  int waiting() {
    std::lock_guard lock(mutex_);
    return waiting_;
  }
  // The ids of all requests, in the order in which they were decoded.
  std::vector<std::string> asked() {
    std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  std::vector<std::string> asked_;
  bool is_released_ = false;
};

TEST(GrpcLimits, LargeRequestsDoNotHoldUpSmallOnes) {
  SlowService service;
  SharedMemoryRegions regions;
  GrpcServerOptions options;
  options.address = "127.0.0.1";
  options.threads = 1;
  GrpcServer server(options, service, regions);
  ModelInferRequest slow = sum_request({1, 2, 3, 4}, "slow");
  (*slow.mutable_parameters())["binary_data_output"].set_string_param(std::string(200'000, 'x'));
  const std::string large = slow.SerializeAsString();
  RawClient client(server.port());
  std::string message(kGrpcPrefixBytes, '\0');
  message += large;
  write_prefix(message, false);
  client.send(frame(kHeadersFrame, kEndHeaders, 1, request_block(kInfer)) +
              frame(kWindowUpdateFrame, 0, 0, big_endian(1 << 20)) +
              frame(kWindowUpdateFrame, 0, 1, big_endian(1 << 20)));
  for (size_t at = 0; at < message.size(); at += 10'000) {
    const bool is_last = at + 10'000 >= message.size();
    client.send(frame(kDataFrame, is_last ? kEndStream : 0, 1, message.substr(at, 10'000)));
  }
  ASSERT_TRUE(becomes_true([&] { return service.waiting() == 1; }));
  EXPECT_TRUE(is_live(server.port()));
  client.call(3, kInfer, sum_request({1, 2, 3, 4}).SerializeAsString());
  EXPECT_EQ(client.answer(3)["grpc-status"], "0");
  service.let_go();
  EXPECT_EQ(client.answer(1)["grpc-status"], "0");
}

// The answers of a stream, read to its end.
std::vector<inference::ModelStreamInferResponse> streamed_answers(RawClient& client,
                                                                  uint32_t stream) {
  std::string bytes;
  while (auto one = client.receive()) {
    if (one->stream != stream) continue;
    if (one->type == kDataFrame) bytes += one->payload;
    if ((one->flags & kEndStream) != 0) break;
  }
  std::vector<inference::ModelStreamInferResponse> answers;
  GrpcFrameReader reader(1 << 20, nullptr);
  for (auto left = std::as_bytes(std::span(bytes)); !left.empty();) {
    const auto message = reader.read(left);
    if (!message) break;
    answers.emplace_back().ParseFromArray(message->bytes().data(),
                                          static_cast<int>(message->size()));
  }
  return answers;
}

// A message that a worker decodes.
std::string compressed_request(const std::string& id) {
  ModelInferRequest request = sum_request({1, 2, 3, 4}, id);
  (*request.mutable_parameters())["binary_data_output"].set_string_param(std::string(200, 'x'));
  std::string framed(kGrpcPrefixBytes, '\0');
  framed += request.SerializeAsString();
  write_prefix(framed, false);
  compress(framed, ContentEncoding::kGzip);
  return framed;
}

TEST(GrpcLimits, AFullQueueOfDecodingFailsTheRequestAndNotItsStream) {
  SlowService service;
  SharedMemoryRegions regions;
  GrpcServerOptions options;
  options.address = "127.0.0.1";
  options.workers = 1;
  options.max_stream_requests = 10'000;
  GrpcServer server(options, service, regions);
  RawClient client(server.port(), std::string("\0\4", 2) + big_endian(1 << 30));
  client.send(frame(kWindowUpdateFrame, 0, 0, big_endian(1 << 30)) +
              frame(kHeadersFrame, kEndHeaders, 1,
                    request_block(kStreamInfer, {{"grpc-encoding", "gzip"}})) +
              frame(kDataFrame, 0, 1, compressed_request("slow")));
  ASSERT_TRUE(becomes_true([&] { return service.waiting() == 1; }));
  // One host has half of the 4096 places. Each call in between shows that what was sent before it
  // has been read.
  constexpr size_t kRequests = 2500, kPart = 500;
  const std::string message = compressed_request("quick");
  for (uint32_t part = 0; part < kRequests / kPart; ++part) {
    std::string bytes;
    for (size_t i = 0; i < kPart; ++i) bytes += frame(kDataFrame, 0, 1, message);
    client.send(bytes);
    client.call(3 + 2 * part, kLive, "");
    ASSERT_EQ(client.answer(3 + 2 * part)["grpc-status"], "0");
  }
  service.let_go();
  client.send(frame(kDataFrame, kEndStream, 1));
  const auto answers = streamed_answers(client, 1);
  ASSERT_EQ(answers.size(), 1 + kRequests);
  size_t refused = 0;
  for (const auto& answer : answers) {
    if (answer.error_message().empty()) {
      EXPECT_EQ(first_float(answer.infer_response()), 10);
    } else {
      EXPECT_THAT(answer.error_message(), HasSubstr("too many messages wait to be decoded"));
      ++refused;
    }
  }
  EXPECT_EQ(refused, kRequests - 2048);
}

// Counted in turns, not in time.
TEST(GrpcLimits, AFloodOfCompressedMessagesDelaysAnotherHostByOne) {
  SlowService service;
  SharedMemoryRegions regions;
  GrpcServerOptions options;
  options.address = "127.0.0.1";
  options.workers = 1;
  GrpcServer server(options, service, regions);
  const auto call = [](RawClient& client, uint32_t stream, const std::string& id) {
    client.send(frame(kHeadersFrame, kEndHeaders, stream,
                      request_block(kInfer, {{"grpc-encoding", "gzip"}})) +
                frame(kDataFrame, kEndStream, stream, compressed_request(id)));
  };
  std::vector<std::unique_ptr<RawClient>> flood;
  for (int i = 0; i < 5; ++i) {
    flood.push_back(std::make_unique<RawClient>(server.port()));
    for (uint32_t stream = 1; stream < 201; stream += 2) {
      const bool is_first = stream == 1 && i == 0;
      call(*flood[i], stream, is_first ? "slow" : "flood");
      if (is_first) {
        ASSERT_TRUE(becomes_true([&] { return service.waiting() == 1; }));
      }
    }
    flood[i]->wait_until_read();
  }
  RawClient other(server.port(), "", "127.0.0.2");
  call(other, 1, "other");
  other.wait_until_read();
  service.let_go();
  EXPECT_EQ(other.answer(1)["grpc-status"], "0");
  const std::vector<std::string> asked = service.asked();
  EXPECT_LE(std::find(asked.begin(), asked.end(), "other") - asked.begin(), 2);
}

TEST(GrpcLimits, AnAnswerWithoutMemoryFailsTheRequestAndNotItsStream) {
  MemoryBudget budget(200'000);
  GrpcTestServer test({.memory_budget = &budget});
  ClientContext context;
  auto stream = test.stub->ModelStreamInfer(&context);
  ModelInferRequest echo = sum_request({1, 2, 3, 4});
  add_input(echo, "NAME", "BYTES", {1, 1})
      ->mutable_contents()
      ->add_bytes_contents(std::string(60'000, 'x'));
  echo.clear_raw_input_contents();
  for (const float value : {1.f, 2.f, 3.f, 4.f})
    echo.mutable_inputs(0)->mutable_contents()->add_fp32_contents(value);
  stream->Write(echo);
  inference::ModelStreamInferResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_THAT(response.error_message(), HasSubstr("--max-memory"));
  stream->Write(sum_request({1, 2, 3, 4}));
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(first_float(response.infer_response()), 10);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST(GrpcLimits, CallsThatStayOpenTakeMemory) {
  MemoryBudget budget(50'000);
  GrpcTestServer test({.memory_budget = &budget});
  const std::string watch = "/grpc.health.v1.Health/Watch";
  {
    RawClient client(test.server->port());
    for (uint32_t stream = 1; stream < 100; stream += 2) {
      if (stream % 4 == 1)
        client.call(stream, watch, "");
      else
        client.send(frame(kHeadersFrame, kEndHeaders, stream, request_block(kStreamInfer)));
    }
    client.call(101, watch, "");
    RawClient::Headers refused = client.answer(101);
    EXPECT_EQ(refused["grpc-status"], "14");
    EXPECT_THAT(refused["grpc-message"], HasSubstr("--max-memory"));
    EXPECT_GE(budget.used(), 45'000u);
    EXPECT_TRUE(is_live(test.server->port()));  // a short call takes none
  }
  EXPECT_TRUE(becomes_true([&] { return budget.used() == 0; }));
}

// It is read on the connection's thread.
TEST(GrpcLimits, RefusesLargeRequestsForHealthWatches) {
  GrpcTestServer test;
  for (const auto algorithm : {GRPC_COMPRESS_NONE, GRPC_COMPRESS_GZIP}) {
    ClientContext context;
    context.set_compression_algorithm(algorithm);
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(std::string(1'000'000, 'x'));
    const auto watch = test.health->Watch(&context, request);
    EXPECT_EQ(watch->Finish().error_code(), StatusCode::RESOURCE_EXHAUSTED);
  }
}

TEST(GrpcLimits, ClosesConnectionsThatResetStreamsWithoutEnd) {
  GrpcTestServer test;
  RawClient client(test.server->port());
  std::string flood;
  for (uint32_t stream = 1; stream < 8000; stream += 2)
    flood += frame(kHeadersFrame, kEndHeaders, stream, request_block(kInfer)) +
             frame(kRstStreamFrame, 0, stream, big_endian(8));
  client.send(flood);
  EXPECT_TRUE(client.is_closed_by_server());
  EXPECT_TRUE(is_live(test.server->port()));
}

}  // namespace
}  // namespace emblem
