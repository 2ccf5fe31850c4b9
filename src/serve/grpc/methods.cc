#include "serve/grpc/methods.h"

#include "emblem/error.h"
#include "serve/grpc/framing.h"
#include "serve/grpc/front_end.h"
#include "serve/grpc/parsed.h"
#include "serve/grpc/reflection.h"

namespace emblem {
namespace {

using Kind = GrpcMethod::Kind;

template <class Request>
Parsed<Request> read(const GrpcFrontEnd& front, std::span<const std::byte> bytes) {
  Parsed<Request> request{lease_of(front.options.memory_budget, bytes.size()), {}};
  request.lease.grow(2 * bytes.size());  // for copies that a call may make of what it was sent
  parse(bytes, request);
  return request;
}

template <class Request, class Response>
GrpcAnswer answer_of_calls() {
  return [](GrpcFrontEnd& front, std::span<const std::byte> bytes) {
    const auto request = read<Request>(front, bytes);
    auto response = std::make_unique<Response>();
    front.calls.answer(request.message, *response);
    return response;
  };
}

void add_inference(GrpcMethods& methods) {
  const std::string service = "/inference.GRPCInferenceService/";
#define EMBLEM_METHOD(NAME, API, ...)                                                       \
  methods[service + #NAME] = {                                                              \
      Kind::kAnswer, Api::API,                                                              \
      answer_of_calls<inference::NAME##Request, inference::NAME##Response>() __VA_OPT__(, ) \
          __VA_ARGS__}
  EMBLEM_METHOD(ServerLive, kHealth);
  EMBLEM_METHOD(ServerReady, kHealth);
  EMBLEM_METHOD(ServerMetadata, kMetadata);
  EMBLEM_METHOD(ModelReady, kHealth);
  EMBLEM_METHOD(ModelMetadata, kMetadata);
  EMBLEM_METHOD(ModelConfig, kModelConfig);
  EMBLEM_METHOD(ModelStatistics, kStatistics);
  EMBLEM_METHOD(RepositoryIndex, kModelRepository);
  EMBLEM_METHOD(RepositoryModelLoad, kModelRepository, /*is_slow=*/true, /*has_payload=*/true);
  EMBLEM_METHOD(RepositoryModelUnload, kModelRepository, /*is_slow=*/true);
  EMBLEM_METHOD(SystemSharedMemoryStatus, kSharedMemory);
  EMBLEM_METHOD(SystemSharedMemoryRegister, kSharedMemory);
  EMBLEM_METHOD(SystemSharedMemoryUnregister, kSharedMemory);
  EMBLEM_METHOD(CudaSharedMemoryStatus, kSharedMemory);
  EMBLEM_METHOD(CudaSharedMemoryRegister, kSharedMemory);
  EMBLEM_METHOD(CudaSharedMemoryUnregister, kSharedMemory);
  EMBLEM_METHOD(TraceSetting, kTrace);
  EMBLEM_METHOD(LogSettings, kLogging);
#undef EMBLEM_METHOD
  methods[service + "ModelInfer"] = {
      .kind = Kind::kInfer, .api = Api::kInference, .has_payload = true};
  methods[service + "ModelStreamInfer"] = {
      .kind = Kind::kInferStream, .api = Api::kInference, .has_payload = true};
}

void add_health(GrpcMethods& methods) {
  using namespace grpc::health::v1;  // NOLINT: its messages
  const std::string service = "/grpc.health.v1.Health/";
  methods[service + "Check"] = {Kind::kAnswer, Api::kHealth,
                                answer_of_calls<HealthCheckRequest, HealthCheckResponse>()};
  methods[service + "List"] = {Kind::kAnswer, Api::kHealth,
                               answer_of_calls<HealthListRequest, HealthListResponse>()};
  methods[service + "Watch"] = {Kind::kHealthWatch, Api::kHealth};
}

void add_reflection(GrpcMethods& methods) {
  using namespace grpc::reflection::v1;  // NOLINT: its messages
  for (const char* version : {"v1", "v1alpha"}) {
    methods[cat("/grpc.reflection.", version, ".ServerReflection/ServerReflectionInfo")] = {
        Kind::kAnswerEach, Api::kMetadata,
        [](GrpcFrontEnd& front, std::span<const std::byte> bytes) {
          return std::make_unique<ServerReflectionResponse>(
              reflect(read<ServerReflectionRequest>(front, bytes).message));
        }};
  }
}

}  // namespace

GrpcMethods grpc_methods() {
  GrpcMethods methods;
  add_inference(methods);
  add_health(methods);
  add_reflection(methods);
  return methods;
}

}  // namespace emblem
