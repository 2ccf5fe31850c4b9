// Streams, cancellation, deadlines, many clients, draining.
#include <gmock/gmock.h>

#include <atomic>
#include <random>

#include "serve/grpc/test_server_test.h"

namespace emblem {
namespace {

using grpc::ClientContext;
using grpc::Status;
using grpc::StatusCode;
using inference::ModelStreamInferResponse;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

Status infer(Stub& stub, const ModelInferRequest& request, ModelInferResponse& response) {
  ClientContext context;
  return stub.ModelInfer(&context, request, &response);
}

TEST(GrpcStream, AnswersInTheOrderOfTheRequests) {
  GrpcTestServer test;
  ClientContext context;
  auto stream = test.stub->ModelStreamInfer(&context);
  constexpr int kRequests = 500;
  std::thread writer([&] {
    for (int i = 0; i < kRequests; ++i)
      stream->Write(sum_request({static_cast<float>(i), 0, 0, 0}, std::to_string(i)));
    stream->WritesDone();
  });
  ModelStreamInferResponse response;
  int answers = 0;
  while (stream->Read(&response)) {
    EXPECT_EQ(response.error_message(), "");
    EXPECT_EQ(response.infer_response().id(), std::to_string(answers));
    EXPECT_EQ(first_float(response.infer_response()), static_cast<float>(answers));
    EXPECT_EQ(response.infer_response().parameters().count("triton_final_response"), 0u);
    ++answers;
  }
  writer.join();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(answers, kRequests);
}

TEST(GrpcStream, SaysErrorsInAnswersAndGoesOn) {
  GrpcTestServer test;
  ClientContext context;
  auto stream = test.stub->ModelStreamInfer(&context);
  ModelStreamInferResponse response;

  stream->Write(sum_request({1, 2, 3}, "short"));
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_THAT(response.error_message(), HasSubstr("input A has 12 bytes"));
  EXPECT_EQ(response.infer_response().id(), "short");

  ModelInferRequest unknown = sum_request({1, 2, 3, 4}, "unknown");
  unknown.set_model_name("absent");
  (*unknown.mutable_parameters())["triton_enable_empty_final_response"].set_bool_param(true);
  stream->Write(unknown);
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_THAT(response.error_message(), HasSubstr("absent"));
  EXPECT_TRUE(response.infer_response().parameters().at("triton_final_response").bool_param());

  ModelInferRequest good = sum_request({1, 2, 3, 4}, "good");
  (*good.mutable_parameters())["triton_enable_empty_final_response"].set_bool_param(true);
  stream->Write(good);
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.error_message(), "");
  EXPECT_EQ(first_float(response.infer_response()), 10);
  EXPECT_TRUE(response.infer_response().parameters().at("triton_final_response").bool_param());
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST(GrpcStream, ReadsNoMoreThanItMayHaveUnderWay) {
  GrpcTestServer test({.max_stream_requests = 4});
  test.service.hold = true;
  ClientContext context;
  auto stream = test.stub->ModelStreamInfer(&context);
  for (int i = 0; i < 20; ++i) stream->Write(sum_request({1, 2, 3, 4}));
  ASSERT_TRUE(becomes_true([&] { return test.service.held() == 4; }));
  for (int i = 0; i < 3; ++i) {  // events of one thread come in turn: it had time to read more
    ClientContext other;
    inference::ServerLiveResponse live;
    EXPECT_TRUE(test.stub->ServerLive(&other, {}, &live).ok());
  }
  EXPECT_EQ(test.service.held(), 4u);
  test.service.release();
  stream->WritesDone();
  ModelStreamInferResponse response;
  int answers = 0;
  while (stream->Read(&response)) ++answers;
  EXPECT_EQ(answers, 20);
  EXPECT_TRUE(stream->Finish().ok());
}

TEST(GrpcStream, CancellingItCancelsItsRequests) {
  GrpcTestServer test;
  test.service.hold = true;
  ClientContext context;
  auto stream = test.stub->ModelStreamInfer(&context);
  for (int i = 0; i < 3; ++i) stream->Write(sum_request({1, 2, 3, 4}));
  ASSERT_TRUE(becomes_true([&] { return test.service.held() == 3; }));
  context.TryCancel();
  EXPECT_EQ(stream->Finish().error_code(), StatusCode::CANCELLED);
  // Only requests that were not cancelled are counted as answered.
  EXPECT_TRUE(becomes_true([&] { return test.service.held_and_cancelled() == 3; }));
  test.service.release();
  EXPECT_EQ(test.service.statistics("sum", "1").at(0).inference_count, 0u);
}

TEST(GrpcInfer, CancellationReachesTheRequest) {
  GrpcTestServer test;
  test.service.hold = true;
  ClientContext context;
  std::thread canceller([&] {
    EXPECT_TRUE(becomes_true([&] { return test.service.held() == 1; }));
    context.TryCancel();
  });
  ModelInferResponse response;
  EXPECT_EQ(test.stub->ModelInfer(&context, sum_request({1, 2, 3, 4}), &response).error_code(),
            StatusCode::CANCELLED);
  canceller.join();
  EXPECT_TRUE(becomes_true([&] { return test.service.held_and_cancelled() == 1; }));
  test.service.release();
  EXPECT_EQ(test.service.statistics("sum", "1").at(0).inference_count, 0u);
}

TEST(GrpcInfer, APassedDeadlineCancelsTheRequest) {
  GrpcTestServer test;
  test.service.hold = true;
  for (milliseconds time(100); test.service.held() == 0; time *= 2) {  // until one got that far
    ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + time);
    ModelInferResponse response;
    EXPECT_EQ(test.stub->ModelInfer(&context, sum_request({1, 2, 3, 4}), &response).error_code(),
              StatusCode::DEADLINE_EXCEEDED);
  }
  EXPECT_TRUE(becomes_true([&] { return test.service.held_and_cancelled() == 1; }));
  test.service.release();
  EXPECT_EQ(test.service.statistics("sum", "1").at(0).inference_count, 0u);
}

// Several connections, each with calls and streams at once, on several queues.
TEST(GrpcServer, AnswersManyClientsAtOnce) {
  GrpcTestServer test({{.threads = 2}});
  constexpr int kClients = 4, kCalls = 150, kStreams = 4;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> clients;
  for (int c = 0; c < kClients; ++c) {
    clients.emplace_back([&, c] {
      const auto stub = inference::GRPCInferenceService::NewStub(test.new_channel());
      std::vector<std::unique_ptr<ClientContext>> contexts;
      std::vector<
          std::unique_ptr<grpc::ClientReaderWriter<ModelInferRequest, ModelStreamInferResponse>>>
          streams;
      for (int s = 0; s < kStreams; ++s) {
        contexts.push_back(std::make_unique<ClientContext>());
        streams.push_back(stub->ModelStreamInfer(contexts.back().get()));
      }
      for (int i = 0; i < kCalls; ++i) {
        const auto value = static_cast<float>(c * 1000 + i);
        ModelInferResponse response;
        if (!infer(*stub, sum_request({value, 1, 0, 0}), response).ok() ||
            first_float(response) != value + 1)
          ++wrong;
        for (auto& stream : streams) stream->Write(sum_request({value, 2, 0, 0}));
        ModelStreamInferResponse streamed;
        for (auto& stream : streams) {
          if (!stream->Read(&streamed) || first_float(streamed.infer_response()) != value + 2)
            ++wrong;
        }
      }
      for (auto& stream : streams) {
        stream->WritesDone();
        if (!stream->Finish().ok()) ++wrong;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong, 0);
}

// Clients that cancel at any moment leave the server as it was.
TEST(GrpcServer, SurvivesClientsThatVanish) {
  GrpcTestServer test({{.threads = 2}});
  std::vector<std::thread> clients;
  for (unsigned c = 0; c < 4; ++c) {
    clients.emplace_back([&, c] {
      std::mt19937 random(c);
      for (int i = 0; i < 30; ++i) {
        const auto stub = inference::GRPCInferenceService::NewStub(test.new_channel());
        ClientContext unary, streaming;
        unary.set_deadline(std::chrono::system_clock::now() +
                           std::chrono::microseconds(random() % 3000));
        ModelInferResponse response;
        stub->ModelInfer(&unary, sum_request({1, 2, 3, 4}), &response);
        auto stream = stub->ModelStreamInfer(&streaming);
        for (unsigned k = 0; k < random() % 8; ++k) stream->Write(sum_request({1, 2, 3, 4}));
        streaming.TryCancel();
        stream->Finish();
      }
    });
  }
  for (std::thread& client : clients) client.join();
  ModelInferResponse response;
  EXPECT_TRUE(infer(*test.stub, sum_request({1, 2, 3, 4}), response).ok());
}

TEST(GrpcServer, DrainsWithAnswersForWhatIsUnderWay) {
  GrpcTestServer test;
  test.service.hold = true;
  ClientContext streaming, idling;
  auto stream = test.stub->ModelStreamInfer(&streaming);
  auto idle = test.stub->ModelStreamInfer(&idling);
  stream->Write(sum_request({5, 0, 0, 0}));
  ModelInferResponse response;
  Status status;
  std::thread unary([&] { status = infer(*test.stub, sum_request({1, 2, 3, 4}), response); });
  ASSERT_TRUE(becomes_true([&] { return test.service.held() == 2; }));

  std::thread drain([&] { test.server->drain(seconds(3600)); });
  ModelStreamInferResponse streamed;
  EXPECT_FALSE(idle->Read(&streamed));
  EXPECT_EQ(idle->Finish().error_code(), StatusCode::UNAVAILABLE);
  // New connections are refused while the old requests continue.
  ASSERT_TRUE(becomes_true([&] {
    const auto late = inference::GRPCInferenceService::NewStub(test.new_channel());
    ModelInferResponse ignored;
    ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + seconds(60));
    return late->ModelInfer(&context, sum_request({1, 2, 3, 4}), &ignored).error_code() ==
           StatusCode::UNAVAILABLE;
  }));
  test.service.release();
  unary.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(first_float(response), 10);
  ASSERT_TRUE(stream->Read(&streamed));
  EXPECT_EQ(first_float(streamed.infer_response()), 5);
  EXPECT_FALSE(stream->Read(&streamed));
  EXPECT_EQ(stream->Finish().error_code(), StatusCode::UNAVAILABLE);
  drain.join();
}

TEST(GrpcServer, CancelsWhatOutlastsTheDraining) {
  GrpcTestServer test;
  test.service.hold = true;
  ModelInferResponse response;
  Status status;
  std::thread unary([&] { status = infer(*test.stub, sum_request({1, 2, 3, 4}), response); });
  ASSERT_TRUE(becomes_true([&] { return test.service.held() == 1; }));
  std::thread drain([&] { test.server->drain(milliseconds(50)); });
  unary.join();  // without an answer of the service
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(becomes_true([&] { return test.service.held_and_cancelled() == 1; }));
  test.service.release();
  drain.join();
  EXPECT_EQ(test.service.statistics("sum", "1").at(0).inference_count, 0u);
}

}  // namespace
}  // namespace emblem
