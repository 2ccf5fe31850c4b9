#include "bench/load/grpc_module/grpc_target.h"

#include <absl/synchronization/mutex.h>
#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>

#include <cmath>

#include "core/system/log.h"
#include "emblem/error.h"
#include "serve/grpc/messages.h"
#include "serve/grpc/service.grpc.pb.h"

namespace emblem {
namespace {

// gRPC's own lines go to log_debug: what matters is thrown or answered instead. Its locks stop
// looking for deadlocks, which Debian's build does at every one of them: about 8 us a call. May be
// called again.
void set_up_grpc() {
  gpr_set_log_function([](gpr_log_func_args* line) {
    try {
      log_debug(cat("gRPC: ", line->message));
    } catch (...) {  // no memory for the line
    }
  });
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

using inference::GRPCInferenceService;
using inference::ModelInferRequest;
using inference::ModelInferResponse;

const char* status_name(grpc::StatusCode code) {
  static constexpr const char* kNames[] = {"OK",
                                           "CANCELLED",
                                           "UNKNOWN",
                                           "INVALID_ARGUMENT",
                                           "DEADLINE_EXCEEDED",
                                           "NOT_FOUND",
                                           "ALREADY_EXISTS",
                                           "PERMISSION_DENIED",
                                           "RESOURCE_EXHAUSTED",
                                           "FAILED_PRECONDITION",
                                           "ABORTED",
                                           "OUT_OF_RANGE",
                                           "UNIMPLEMENTED",
                                           "INTERNAL",
                                           "UNAVAILABLE",
                                           "DATA_LOSS",
                                           "UNAUTHENTICATED"};
  const auto at = static_cast<size_t>(code);
  return at < std::size(kNames) ? kNames[at] : "UNKNOWN";
}

struct GrpcAccess {
  std::string address, token;
  std::chrono::microseconds timeout{0};

  std::unique_ptr<GRPCInferenceService::Stub> new_stub() const {
    grpc::ChannelArguments arguments;
    // A separate connection instead of gRPC's shared one.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetMaxReceiveMessageSize(INT32_MAX);
    arguments.SetMaxSendMessageSize(INT32_MAX);
    return GRPCInferenceService::NewStub(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
  }
  void prepare(grpc::ClientContext& context) const {
    context.set_deadline(std::chrono::system_clock::now() + timeout);
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
  }
};

template <class Parameters>
void name_part(const RegionPart& part, Parameters& parameters) {
  name_shared_memory(parameters, part.region, part.offset, part.bytes);
}

ModelInferRequest to_message(const LoadTargetOptions& options, const LoadRequest& request,
                             const std::vector<LoadOutput>& outputs) {
  ModelInferRequest message;
  message.set_model_name(options.model);
  message.set_model_version(options.version);
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const LoadInput& input = request.inputs[i];
    auto* tensor = message.add_inputs();
    tensor->set_name(input.name);
    tensor->set_datatype(name_of(input.type));
    tensor->mutable_shape()->Add(input.shape.begin(), input.shape.end());
    if (!request.input_parts.empty())
      name_part(request.input_parts[i], *tensor->mutable_parameters());
    else
      message.add_raw_input_contents(input.data.data(), input.data.size());
  }
  for (const LoadOutput& output : outputs) {
    auto* wanted = message.add_outputs();
    wanted->set_name(output.name);
    name_part(output.part, *wanted->mutable_parameters());
  }
  return message;
}

class GrpcConnection final : public LoadConnection {
 public:
  GrpcConnection(const GrpcAccess& access, std::vector<ModelInferRequest> messages)
      : access_(access), stub_(access.new_stub()), messages_(std::move(messages)) {}

  std::optional<std::string> send(size_t request) override {
    grpc::ClientContext context;
    access_.prepare(context);
    const grpc::Status status = stub_->ModelInfer(&context, messages_.at(request), &response_);
    if (status.ok()) return std::nullopt;
    failure_ = status.error_message();
    return status_name(status.error_code());
  }

  LoadAnswer answer() const override {
    EMBLEM_REQUIRE(response_.raw_output_contents_size() == response_.outputs_size(),
                   "the answer has ", response_.raw_output_contents_size(),
                   " raw_output_contents for ", response_.outputs_size(), " outputs");
    LoadAnswer answer;
    for (int i = 0; i < response_.outputs_size(); ++i) {
      const auto& output = response_.outputs(i);
      const std::optional<DataType> type = data_type_from_name(output.datatype());
      EMBLEM_REQUIRE(type, "output ", output.name(), " has the unknown datatype ",
                     output.datatype());
      const std::string& raw = response_.raw_output_contents(i);
      const auto* bytes = reinterpret_cast<const std::byte*>(raw.data());
      answer.outputs.push_back({output.name(),
                                *type,
                                {output.shape().begin(), output.shape().end()},
                                {bytes, bytes + raw.size()}});
    }
    return answer;
  }

  const std::string& failure_text() const override { return failure_; }

 private:
  const GrpcAccess access_;
  const std::unique_ptr<GRPCInferenceService::Stub> stub_;
  const std::vector<ModelInferRequest> messages_;
  ModelInferResponse response_;
  std::string failure_;
};

class GrpcTarget final : public LoadTarget {
 public:
  explicit GrpcTarget(const LoadTargetOptions& options) : options_(options) {
    set_up_grpc();
    const HostAndPort parts = parse_url(options.url, "8001");
    const bool is_v6 = parts.host.find(':') != std::string::npos;
    access_ = {cat(is_v6 ? "[" + parts.host + "]" : parts.host, ":", parts.port), options.token,
               std::chrono::microseconds(std::llround(options.timeout_seconds * 1e6))};
    stub_ = access_.new_stub();
  }

  ModelMetadata metadata() override {
    inference::ModelMetadataRequest of;
    of.set_name(options_.model);
    of.set_version(options_.version);
    inference::ModelMetadataResponse found;
    require(call(&GRPCInferenceService::Stub::ModelMetadata, of, found));
    ModelMetadata metadata{
        found.name(), {found.versions().begin(), found.versions().end()}, found.platform(), {}, {}};
    const auto read = [](const auto& tensors, std::vector<TensorMetadata>& to) {
      for (const auto& tensor : tensors) {
        const std::optional<DataType> type = data_type_from_name(tensor.datatype());
        EMBLEM_REQUIRE(type, "tensor ", tensor.name(), " has the unknown datatype ",
                       tensor.datatype());
        to.push_back({tensor.name(), *type, {tensor.shape().begin(), tensor.shape().end()}});
      }
    };
    read(found.inputs(), metadata.inputs);
    read(found.outputs(), metadata.outputs);
    return metadata;
  }

  std::optional<ServerCounts> statistics() override {
    inference::ModelStatisticsRequest of;
    of.set_name(options_.model);
    of.set_version(options_.version);
    inference::ModelStatisticsResponse found;
    const grpc::Status status = call(&GRPCInferenceService::Stub::ModelStatistics, of, found);
    if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) return std::nullopt;
    require(status);
    ServerCounts sum;
    const auto add = [](const inference::StatisticDuration& from, DurationCount& to) {
      to.count += from.count();
      to.ns += from.ns();
    };
    for (const inference::ModelStatistics& version : found.model_stats()) {
      sum.rows += version.inference_count();
      sum.executions += version.execution_count();
      const inference::InferStatistics& times = version.inference_stats();
      add(times.success(), sum.success);
      add(times.queue(), sum.queue);
      add(times.compute_input(), sum.compute_input);
      add(times.compute_infer(), sum.compute_infer);
      add(times.compute_output(), sum.compute_output);
    }
    return sum;
  }

  void register_region(const SystemRegion& region) override {
    inference::SystemSharedMemoryRegisterRequest of;
    of.set_name(region.name);
    of.set_key(region.key);
    of.set_offset(region.offset);
    of.set_byte_size(region.bytes);
    inference::SystemSharedMemoryRegisterResponse done;
    require(call(&GRPCInferenceService::Stub::SystemSharedMemoryRegister, of, done));
  }

  void unregister_region(const std::string& name) override {
    inference::SystemSharedMemoryUnregisterRequest of;
    of.set_name(name);
    inference::SystemSharedMemoryUnregisterResponse done;
    require(call(&GRPCInferenceService::Stub::SystemSharedMemoryUnregister, of, done));
  }

  std::unique_ptr<LoadConnection> connect(const std::vector<LoadRequest>& requests,
                                          const std::vector<LoadOutput>& outputs) override {
    std::vector<ModelInferRequest> messages;
    for (const LoadRequest& request : requests)
      messages.push_back(to_message(options_, request, outputs));
    return std::make_unique<GrpcConnection>(access_, std::move(messages));
  }

 private:
  template <class Method, class Request, class Response>
  grpc::Status call(Method method, const Request& request, Response& response) {
    grpc::ClientContext context;
    access_.prepare(context);
    return (*stub_.*method)(&context, request, &response);
  }

  void require(const grpc::Status& status) const {
    if (status.ok()) return;
    const bool unreachable = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                             status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
    throw Error(unreachable ? ErrorCode::kUnavailable : ErrorCode::kInvalidArgument,
                cat("the gRPC server at ", access_.address, " says ",
                    status_name(status.error_code()), ": ", status.error_message()));
  }

  const LoadTargetOptions options_;
  GrpcAccess access_;
  std::unique_ptr<GRPCInferenceService::Stub> stub_;
};

}  // namespace
}  // namespace emblem

emblem::LoadTarget* emblem_open_grpc_target(const emblem::LoadTargetOptions& options) {
  return new emblem::GrpcTarget(options);
}
