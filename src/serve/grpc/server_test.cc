#include "serve/grpc/server.h"

#include <gmock/gmock.h>

#include <fstream>

#include "core/device/device.h"
#include "core/files/temp_folder_test.h"
#include "serve/grpc/test_server_test.h"
#include "serve/net/certificate_test.h"
#include "serve/protocol/shared_object_test.h"

namespace emblem {
namespace {

using namespace inference;  // NOLINT: the protocol's messages are what is tested
using grpc::ClientContext;
using grpc::Status;
using grpc::StatusCode;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

// Calls `method` of `stub` and returns its status.
template <class Method, class Request, class Response>
Status call(Stub& stub, Method method, const Request& request, Response& response) {
  ClientContext context;
  return (stub.*method)(&context, request, &response);
}

TEST(GrpcServer, SaysWhatItIs) {
  GrpcTestServer test;
  ServerLiveResponse live;
  ASSERT_TRUE(call(*test.stub, &Stub::ServerLive, ServerLiveRequest(), live).ok());
  EXPECT_TRUE(live.live());

  ServerReadyResponse ready;
  ASSERT_TRUE(call(*test.stub, &Stub::ServerReady, ServerReadyRequest(), ready).ok());
  EXPECT_TRUE(ready.ready());
  test.service.ready = false;
  ASSERT_TRUE(call(*test.stub, &Stub::ServerReady, ServerReadyRequest(), ready).ok());
  EXPECT_FALSE(ready.ready());

  ServerMetadataResponse server;
  ASSERT_TRUE(call(*test.stub, &Stub::ServerMetadata, ServerMetadataRequest(), server).ok());
  EXPECT_EQ(server.name(), "emblem");
  EXPECT_FALSE(server.version().empty());
  EXPECT_THAT(server.extensions(), Contains("statistics"));
}

TEST(GrpcServer, DescribesModels) {
  GrpcTestServer test;
  ModelReadyRequest which;
  which.set_name("sum");
  ModelReadyResponse ready;
  ASSERT_TRUE(call(*test.stub, &Stub::ModelReady, which, ready).ok());
  EXPECT_TRUE(ready.ready());
  which.set_name("absent");
  ASSERT_TRUE(call(*test.stub, &Stub::ModelReady, which, ready).ok());
  EXPECT_FALSE(ready.ready());

  ModelMetadataRequest of;
  of.set_name("sum");
  of.set_version("1");
  ModelMetadataResponse metadata;
  ASSERT_TRUE(call(*test.stub, &Stub::ModelMetadata, of, metadata).ok());
  EXPECT_EQ(metadata.name(), "sum");
  EXPECT_THAT(metadata.versions(), ElementsAre("1", "2"));
  EXPECT_EQ(metadata.inputs(1).name(), "B");
  EXPECT_EQ(metadata.inputs(1).datatype(), "INT64");
  EXPECT_THAT(metadata.inputs(1).shape(), ElementsAre(-1, 2));
  EXPECT_EQ(metadata.outputs(0).name(), "SUM");
  of.set_version("7");
  const Status unknown = call(*test.stub, &Stub::ModelMetadata, of, metadata);
  EXPECT_EQ(unknown.error_code(), StatusCode::NOT_FOUND);
  EXPECT_THAT(unknown.error_message(), HasSubstr("version 7"));

  ModelConfigRequest config_of;
  config_of.set_name("sum");
  ModelConfigResponse config;
  ASSERT_TRUE(call(*test.stub, &Stub::ModelConfig, config_of, config).ok());
  EXPECT_EQ(config.config().max_batch_size(), 64);
  EXPECT_EQ(config.config().input(0).data_type(), TYPE_FP32);
}

TEST(GrpcServer, CountsWhatModelsDid) {
  GrpcTestServer test;
  ModelInferResponse response;
  ASSERT_TRUE(call(*test.stub, &Stub::ModelInfer, sum_request({1, 2, 3, 4}), response).ok());
  ModelStatisticsRequest of;
  ModelStatisticsResponse all;
  ASSERT_TRUE(call(*test.stub, &Stub::ModelStatistics, of, all).ok());
  EXPECT_EQ(all.model_stats_size(), 2);
  of.set_name("sum");
  of.set_version("1");
  ModelStatisticsResponse one;
  ASSERT_TRUE(call(*test.stub, &Stub::ModelStatistics, of, one).ok());
  ASSERT_EQ(one.model_stats_size(), 1);
  const inference::ModelStatistics& statistics = one.model_stats(0);
  EXPECT_EQ(statistics.name(), "sum");
  EXPECT_EQ(statistics.version(), "1");
  EXPECT_EQ(statistics.inference_count(), 1u);
  EXPECT_EQ(statistics.execution_count(), 1u);
  EXPECT_EQ(statistics.inference_stats().success().ns(), 4000u);
  EXPECT_EQ(statistics.inference_stats().queue().count(), 1u);
  EXPECT_EQ(statistics.inference_stats().compute_infer().ns(), 1000u);
  EXPECT_TRUE(statistics.inference_stats().has_cache_hit());
  ASSERT_EQ(statistics.batch_stats_size(), 1);
  EXPECT_EQ(statistics.batch_stats(0).batch_size(), 1u);
  EXPECT_EQ(statistics.batch_stats(0).compute_output().ns(), 1000u);
}

TEST(GrpcServer, ListsLoadsAndUnloadsModels) {
  GrpcTestServer test;
  RepositoryIndexRequest index_of;
  RepositoryIndexResponse index;
  ASSERT_TRUE(call(*test.stub, &Stub::RepositoryIndex, index_of, index).ok());
  ASSERT_EQ(index.models_size(), 3);
  EXPECT_EQ(index.models(2).reason(), "no table");
  index_of.set_ready(true);
  ASSERT_TRUE(call(*test.stub, &Stub::RepositoryIndex, index_of, index).ok());
  EXPECT_EQ(index.models_size(), 2);
  index_of.set_repository_name("other");
  EXPECT_EQ(call(*test.stub, &Stub::RepositoryIndex, index_of, index).error_code(),
            StatusCode::UNIMPLEMENTED);

  RepositoryModelLoadRequest load;
  RepositoryModelLoadResponse loaded;
  load.set_model_name("sum");
  (*load.mutable_parameters())["config"].set_string_param("{}");
  EXPECT_TRUE(call(*test.stub, &Stub::RepositoryModelLoad, load, loaded).ok());
  EXPECT_EQ(test.service.loads, 1);
  (*load.mutable_parameters())["config"].set_bool_param(true);
  EXPECT_EQ(call(*test.stub, &Stub::RepositoryModelLoad, load, loaded).error_code(),
            StatusCode::INVALID_ARGUMENT);
  load.clear_parameters();
  load.set_model_name("absent");
  EXPECT_EQ(call(*test.stub, &Stub::RepositoryModelLoad, load, loaded).error_code(),
            StatusCode::NOT_FOUND);

  RepositoryModelUnloadRequest unload;
  RepositoryModelUnloadResponse unloaded;
  unload.set_model_name("sum");
  (*unload.mutable_parameters())["unload_dependents"].set_bool_param(false);
  EXPECT_TRUE(call(*test.stub, &Stub::RepositoryModelUnload, unload, unloaded).ok());
  EXPECT_EQ(test.service.unloads, 1);
  (*unload.mutable_parameters())["other"].set_bool_param(false);
  EXPECT_EQ(call(*test.stub, &Stub::RepositoryModelUnload, unload, unloaded).error_code(),
            StatusCode::INVALID_ARGUMENT);
}

TEST(GrpcServer, AnswersInference) {
  GrpcTestServer test;
  ModelInferRequest request = sum_request({1, 2, 3, 4}, "request 7");
  request.set_model_version("1");
  add_input(request, "B", "INT64", {1, 2});
  request.add_raw_input_contents(raw_bytes<int64_t>({10, 20}));
  (*request.mutable_parameters())["priority"].set_uint64_param(2);
  ModelInferResponse response;
  ASSERT_TRUE(call(*test.stub, &Stub::ModelInfer, request, response).ok());
  EXPECT_EQ(response.model_name(), "sum");
  EXPECT_EQ(response.model_version(), "1");
  EXPECT_EQ(response.id(), "request 7");
  ASSERT_EQ(response.outputs_size(), 1);
  EXPECT_EQ(response.outputs(0).datatype(), "FP32");
  EXPECT_THAT(response.outputs(0).shape(), ElementsAre(1, 1));
  EXPECT_EQ(response.raw_output_contents_size(), 1);
  EXPECT_EQ(first_float(response), 40);
  EXPECT_EQ(test.service.last_request().priority, 2u);
}

TEST(GrpcServer, AnswersOutputsInTheOrderAskedForAndClasses) {
  GrpcTestServer test;
  ModelInferRequest request = sum_request({1, 2, 3, 4});
  add_input(request, "NAME", "BYTES", {1, 1});
  request.add_raw_input_contents(std::string("\x02\0\0\0hi", 6));
  request.add_outputs()->set_name("ECHO");
  request.add_outputs()->set_name("SUM");
  (*request.mutable_outputs(1)->mutable_parameters())["classification"].set_int64_param(1);
  ModelInferResponse response;
  ASSERT_TRUE(call(*test.stub, &Stub::ModelInfer, request, response).ok());
  ASSERT_EQ(response.outputs_size(), 2);
  EXPECT_EQ(response.outputs(0).name(), "ECHO");
  EXPECT_EQ(response.raw_output_contents(0), std::string("\x02\0\0\0hi", 6));
  EXPECT_EQ(response.outputs(1).datatype(), "BYTES");
  EXPECT_THAT(response.raw_output_contents(1), HasSubstr("10.000000:0"));
}

TEST(GrpcServer, RefusesBadRequestsWithTheirStatus) {
  GrpcTestServer test;
  ModelInferResponse response;
  ModelInferRequest request = sum_request({1, 2, 3});
  Status status = call(*test.stub, &Stub::ModelInfer, request, response);
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("input A has 12 bytes"));

  request = sum_request({1, 2, 3, 4});
  request.set_model_name("absent");
  EXPECT_EQ(call(*test.stub, &Stub::ModelInfer, request, response).error_code(),
            StatusCode::NOT_FOUND);
  // A long name must not make the answer too large for its metadata.
  request.set_model_name(std::string(4000, 'x'));
  status = call(*test.stub, &Stub::ModelInfer, request, response);
  EXPECT_EQ(status.error_code(), StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("xxx"));
  request.set_model_name(std::string(100'000, 'x'));
  status = call(*test.stub, &Stub::ModelInfer, request, response);
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("the name of a model has 100000 bytes"));

  test.service.full = true;
  EXPECT_EQ(call(*test.stub, &Stub::ModelInfer, sum_request({1, 2, 3, 4}), response).error_code(),
            StatusCode::UNAVAILABLE);
}

TEST(GrpcServer, RefusesMessagesAboveTheLimitCompressedOrNot) {
  GrpcTestServer test({.max_message_bytes = 1000});
  ModelInferRequest request = sum_request({1, 2, 3, 4});
  request.set_id(std::string(2000, 'x'));
  ModelInferResponse response;
  EXPECT_EQ(call(*test.stub, &Stub::ModelInfer, request, response).error_code(),
            StatusCode::RESOURCE_EXHAUSTED);
  ClientContext context;
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  const Status expanded = test.stub->ModelInfer(&context, request, &response);
  EXPECT_EQ(expanded.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(expanded.error_message(), HasSubstr("at most 1000"));
}

TEST(GrpcServer, ExpandsRequestsAndCompressesTheirAnswers) {
  GrpcTestServer test;
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    ModelInferRequest request = sum_request({1, 2, 3, 4}, std::string(60'000, 'x'));
    for (const bool streams : {false, true}) {
      ClientContext context;
      context.set_compression_algorithm(algorithm);
      ModelStreamInferResponse response;
      if (streams) {
        auto stream = test.stub->ModelStreamInfer(&context);
        stream->Write(request);
        ASSERT_TRUE(stream->Read(&response));
        stream->WritesDone();
        ASSERT_TRUE(stream->Finish().ok());
      } else {
        ASSERT_TRUE(
            test.stub->ModelInfer(&context, request, response.mutable_infer_response()).ok());
      }
      EXPECT_EQ(first_float(response.infer_response()), 10);
      EXPECT_EQ(response.infer_response().id(), request.id());
      const auto encoding = context.GetServerInitialMetadata().find("grpc-encoding");
      if (encoding != context.GetServerInitialMetadata().end()) {
        EXPECT_EQ(encoding->second, algorithm == GRPC_COMPRESS_GZIP ? "gzip" : "deflate");
      }
    }
  }
}

TEST(GrpcServer, TakesInputsFromSharedMemoryAndPutsOutputsThere) {
  GrpcTestServer test;
  const SharedObject object(64);
  SystemSharedMemoryRegisterRequest region;
  region.set_name("both");
  region.set_key(object.key());
  region.set_byte_size(64);
  SystemSharedMemoryRegisterResponse registered;
  ASSERT_TRUE(call(*test.stub, &Stub::SystemSharedMemoryRegister, region, registered).ok());
  SystemSharedMemoryStatusResponse status;
  ASSERT_TRUE(
      call(*test.stub, &Stub::SystemSharedMemoryStatus, SystemSharedMemoryStatusRequest(), status)
          .ok());
  EXPECT_EQ(status.regions().at("both").key(), object.key());
  EXPECT_EQ(status.regions().at("both").byte_size(), 64u);

  const std::vector<float> row = {1, 2, 3, 4};
  std::memcpy(object.bytes().data() + 8, row.data(), 16);
  ModelInferRequest request;
  request.set_model_name("sum");
  // The one in shared memory has no entry among the raw contents.
  auto& input = *add_input(request, "A", "FP32", {1, 4})->mutable_parameters();
  input["shared_memory_region"].set_string_param("both");
  input["shared_memory_offset"].set_int64_param(8);
  input["shared_memory_byte_size"].set_int64_param(16);
  add_input(request, "B", "INT64", {1, 2});
  request.add_raw_input_contents(raw_bytes<int64_t>({10, 20}));
  request.add_outputs()->set_name("SUM");
  auto& output = *request.mutable_outputs(0)->mutable_parameters();
  output["shared_memory_region"].set_string_param("both");
  output["shared_memory_offset"].set_int64_param(32);
  output["shared_memory_byte_size"].set_int64_param(4);
  ModelInferResponse response;
  ASSERT_TRUE(call(*test.stub, &Stub::ModelInfer, request, response).ok());
  EXPECT_THAT(response.raw_output_contents(), ElementsAre(""));
  float sum = 0;
  std::memcpy(&sum, object.bytes().data() + 32, 4);
  EXPECT_EQ(sum, 40);

  output["shared_memory_byte_size"].set_int64_param(3);
  Status refused = call(*test.stub, &Stub::ModelInfer, request, response);
  EXPECT_EQ(refused.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), HasSubstr("output SUM has 4 bytes"));
  output["shared_memory_byte_size"].set_int64_param(33);
  EXPECT_EQ(call(*test.stub, &Stub::ModelInfer, request, response).error_code(),
            StatusCode::INVALID_ARGUMENT);

  SystemSharedMemoryUnregisterResponse gone;
  ASSERT_TRUE(call(*test.stub, &Stub::SystemSharedMemoryUnregister,
                   SystemSharedMemoryUnregisterRequest(), gone)
                  .ok());
  SystemSharedMemoryStatusRequest which;
  which.set_name("both");
  EXPECT_EQ(call(*test.stub, &Stub::SystemSharedMemoryStatus, which, status).error_code(),
            StatusCode::NOT_FOUND);
}

TEST(GrpcServer, RefusesCudaSharedMemoryThatCannotBeOpened) {
  GrpcTestServer test;
  CudaSharedMemoryStatusResponse status;
  ASSERT_TRUE(
      call(*test.stub, &Stub::CudaSharedMemoryStatus, CudaSharedMemoryStatusRequest(), status)
          .ok());
  EXPECT_EQ(status.regions_size(), 0);
  CudaSharedMemoryUnregisterResponse gone;
  EXPECT_TRUE(
      call(*test.stub, &Stub::CudaSharedMemoryUnregister, CudaSharedMemoryUnregisterRequest(), gone)
          .ok());
  CudaSharedMemoryRegisterRequest region;
  region.set_name("gpu");
  CudaSharedMemoryRegisterResponse registered;
  const Status refused = call(*test.stub, &Stub::CudaSharedMemoryRegister, region, registered);
  EXPECT_EQ(refused.error_code(),
            kHasCuda ? StatusCode::INVALID_ARGUMENT : StatusCode::UNIMPLEMENTED);
  EXPECT_THAT(refused.error_message(),
              HasSubstr(kHasCuda ? "handle of 0 bytes" : "use system shared memory"));
}

TEST(GrpcServer, SpeaksTheStandardHealthProtocol) {
  using grpc::health::v1::HealthCheckRequest;
  using grpc::health::v1::HealthCheckResponse;
  GrpcTestServer test;
  const auto check = [&](const std::string& service, HealthCheckResponse& response) {
    ClientContext context;
    HealthCheckRequest request;
    request.set_service(service);
    return test.health->Check(&context, request, &response);
  };
  HealthCheckResponse response;
  for (const char* service : {"", "inference.GRPCInferenceService"}) {
    ASSERT_TRUE(check(service, response).ok());
    EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  }
  EXPECT_EQ(check("other", response).error_code(), StatusCode::NOT_FOUND);

  ClientContext context, stranger;
  HealthCheckRequest request;
  const auto watch = test.health->Watch(&context, request);
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  test.service.ready = false;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  test.service.ready = true;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  request.set_service("other");
  const auto unknown = test.health->Watch(&stranger, request);
  ASSERT_TRUE(unknown->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVICE_UNKNOWN);

  stranger.TryCancel();
  EXPECT_EQ(unknown->Finish().error_code(), StatusCode::CANCELLED);
  test.server->drain(std::chrono::seconds(20));
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(watch->Finish().error_code(), StatusCode::UNAVAILABLE);
}

TEST(GrpcServer, AsksForItsToken) {
  const Access access({.inference_token = "open sesame"});
  GrpcTestServer test({.access = &access});
  const auto infer = [&](const char* authorization) {
    ClientContext context;
    if (authorization != nullptr) context.AddMetadata("authorization", authorization);
    ModelInferResponse response;
    return test.stub->ModelInfer(&context, sum_request({1, 2, 3, 4}), &response).error_code();
  };
  EXPECT_EQ(infer("Bearer open sesame"), StatusCode::OK);
  EXPECT_EQ(infer("Bearer open sesamE"), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(infer("Bearer open"), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(infer("open sesame"), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(infer(nullptr), StatusCode::UNAUTHENTICATED);

  RepositoryModelUnloadRequest unload;
  RepositoryModelUnloadResponse unloaded;
  unload.set_model_name("sum");
  EXPECT_EQ(call(*test.stub, &Stub::RepositoryModelUnload, unload, unloaded).error_code(),
            StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(test.service.unloads, 0);
  ClientContext context;
  auto stream = test.stub->ModelStreamInfer(&context);
  ModelStreamInferResponse response;
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_EQ(stream->Finish().error_code(), StatusCode::UNAUTHENTICATED);

  // Neither of two tokens counts, wherever the right one stands.
  for (const auto& [first, second] : {std::pair("Bearer open sesame", "Bearer other"),
                                      std::pair("Bearer other", "Bearer open sesame")}) {
    ClientContext twice;
    twice.AddMetadata("authorization", first);
    twice.AddMetadata("authorization", second);
    ModelInferResponse answer;
    EXPECT_EQ(test.stub->ModelInfer(&twice, sum_request({1, 2, 3, 4}), &answer).error_code(),
              StatusCode::INVALID_ARGUMENT);
  }

  // To ask whether the server lives needs no token.
  ServerReadyResponse ready;
  EXPECT_TRUE(call(*test.stub, &Stub::ServerReady, ServerReadyRequest(), ready).ok());
}

TEST(GrpcServer, ChangesItemsOfAModel) {
  GrpcTestServer test;
  ModelInferRequest request;
  request.set_model_name("sum");
  request.set_id("mine");
  add_input(request, "ids", "INT64", {1});
  request.add_raw_input_contents(raw_bytes<int64_t>({7}));
  ModelInferResponse response;
  const auto change = [&](const char* what) {
    (*request.mutable_parameters())["change_items"].set_string_param(what);
    return call(*test.stub, &Stub::ModelInfer, request, response);
  };
  ASSERT_TRUE(change("put").ok());
  EXPECT_EQ(response.model_name(), "sum");
  EXPECT_EQ(response.model_version(), "2");
  EXPECT_EQ(response.id(), "mine");
  EXPECT_EQ(response.parameters().at("change").int64_param(), 1);
  EXPECT_EQ(response.parameters().at("items").int64_param(), 10);
  EXPECT_EQ(response.outputs_size(), 0);
  request.set_model_version("2");
  ASSERT_TRUE(change("remove").ok());
  EXPECT_EQ(change("add").error_code(), StatusCode::INVALID_ARGUMENT);
  ClientContext context;
  auto stream = test.stub->ModelStreamInfer(&context);
  (*request.mutable_parameters())["change_items"].set_string_param("put");
  stream->Write(request);
  ModelStreamInferResponse of_stream;
  ASSERT_TRUE(stream->Read(&of_stream));
  EXPECT_THAT(of_stream.error_message(), HasSubstr("by ModelInfer"));
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_THAT(test.service.changes(), ElementsAre("put sum/ ids", "remove sum/2 ids"));
}

// With a control token, that of inference is not enough.
TEST(GrpcServer, ChangesOfItemsNeedWhatTheRepositoryNeeds) {
  const Access tokens({.inference_token = "ask", .control_token = "change"}),
      keys({.restricted = {{{Api::kModelRepository}, "admin", "yes"}}});
  ModelInferRequest request;
  request.set_model_name("sum");
  add_input(request, "ids", "INT64", {1});
  request.add_raw_input_contents(raw_bytes<int64_t>({7}));
  (*request.mutable_parameters())["change_items"].set_string_param("put");
  const auto status = [&](const Access& access, const char* name, const char* value) {
    GrpcTestServer test({.access = &access});
    ClientContext context;
    if (name != nullptr) context.AddMetadata(name, value);
    ModelInferResponse response;
    const StatusCode code = test.stub->ModelInfer(&context, request, &response).error_code();
    EXPECT_EQ(test.service.changes().size(), code == StatusCode::OK ? 1u : 0u);
    return code;
  };
  EXPECT_EQ(status(tokens, nullptr, nullptr), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(status(tokens, "authorization", "Bearer ask"), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(status(tokens, "authorization", "Bearer change"), StatusCode::OK);
  EXPECT_EQ(status(keys, nullptr, nullptr), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(status(keys, "admin", "yes"), StatusCode::OK);
}

TEST(GrpcServer, SpeaksTls) {
  const TempFolder folder;
  const CertificateFiles files = write_certificate(folder.path());
  GrpcTestServer test({{.tls_certificate = files.certificate, .tls_key = files.key}});
  grpc::SslCredentialsOptions trusted;
  trusted.pem_root_certs = files.certificate_text;
  const auto secure =
      GRPCInferenceService::NewStub(test.new_channel(grpc::SslCredentials(trusted)));
  ModelInferResponse response;
  ASSERT_TRUE(call(*secure, &Stub::ModelInfer, sum_request({1, 2, 3, 4}), response).ok());
  EXPECT_EQ(first_float(response), 10);
  EXPECT_EQ(call(*test.stub, &Stub::ModelInfer, sum_request({1, 2, 3, 4}), response).error_code(),
            StatusCode::UNAVAILABLE);
}

TEST(GrpcServer, RefusesOptionsThatCannotBe) {
  FakeService service;
  SharedMemoryRegions regions{{.allowed_prefixes = {""}}};
  const auto refusal = [&](const GrpcServerOptions& options) -> std::string {
    try {
      const GrpcServer server(options, service, regions);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refusal({{.threads = 0}}), HasSubstr("at least one thread"));
  EXPECT_THAT(refusal({.max_message_bytes = int64_t{3} << 30}), HasSubstr("2 GiB"));
  EXPECT_THAT(refusal({.max_stream_requests = 0}), HasSubstr("at least one request"));
  EXPECT_THAT(refusal({{.tls_key = "key.pem"}}), HasSubstr("both a certificate and its key"));
  EXPECT_THAT(refusal({{.tls_certificate = "/no/cert.pem", .tls_key = "/no/key.pem"}}),
              HasSubstr("/no/cert.pem"));
  const TempFolder folder;
  std::ofstream(folder.path("nonsense.pem")) << "nonsense";
  EXPECT_THAT(refusal({{.tls_certificate = folder.path("nonsense.pem"),
                        .tls_key = folder.path("nonsense.pem")}}),
              HasSubstr("cannot be used"));
  const GrpcServer first({{.address = "127.0.0.1"}}, service, regions);
  EXPECT_THAT(refusal({{.address = "127.0.0.1", .port = first.port()}}),
              AllOf(HasSubstr("cannot listen"), HasSubstr(std::to_string(first.port()))));
}

}  // namespace
}  // namespace emblem
