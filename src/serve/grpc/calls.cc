#include "serve/grpc/calls.h"

#include <algorithm>
#include <string_view>

#include "emblem/version.h"
#include "serve/grpc/messages.h"
#include "serve/protocol/extensions.h"

namespace emblem {
namespace {

constexpr const char* kService = "inference.GRPCInferenceService";

void refuse_repository_name(const std::string& name) {
  if (name.empty()) return;
  throw Error(ErrorCode::kUnsupported, cat("repository_name is \"", name,
                                           "\", but there is one repository, without a name"));
}

}  // namespace

// ---- the server ----

void GrpcCalls::answer(const inference::ServerLiveRequest&,
                       inference::ServerLiveResponse& to) const {
  to.set_live(true);
}

void GrpcCalls::answer(const inference::ServerReadyRequest&,
                       inference::ServerReadyResponse& to) const {
  to.set_ready(is_ready());
}

void GrpcCalls::answer(const inference::ServerMetadataRequest&,
                       inference::ServerMetadataResponse& to) const {
  to.set_name("emblem");
  to.set_version(kVersion);
  for (const std::string& extension : protocol_extensions(has_shared_memory_))
    to.add_extensions(extension);
}

void GrpcCalls::answer(const grpc::health::v1::HealthCheckRequest& of,
                       grpc::health::v1::HealthCheckResponse& to) const {
  if (!of.service().empty() && of.service() != kService)
    throw Error(ErrorCode::kNotFound, cat("there is no service ", of.service()));
  to.set_status(is_ready() ? grpc::health::v1::HealthCheckResponse::SERVING
                           : grpc::health::v1::HealthCheckResponse::NOT_SERVING);
}

void GrpcCalls::answer(const grpc::health::v1::HealthListRequest&,
                       grpc::health::v1::HealthListResponse& to) const {
  for (const char* service : {"", kService}) {
    grpc::health::v1::HealthCheckRequest of;
    of.set_service(service);
    answer(of, (*to.mutable_statuses())[service]);
  }
}

// ---- models ----

void GrpcCalls::answer(const inference::ModelReadyRequest& of,
                       inference::ModelReadyResponse& to) const {
  try {
    to.set_ready(service_.is_model_ready(of.name(), of.version()));
  } catch (const Error& error) {
    // Clients ask this of models that are not there yet, and expect "no" rather than an error.
    if (error.code() != ErrorCode::kNotFound && error.code() != ErrorCode::kUnavailable) throw;
    to.set_ready(false);
  }
}

void GrpcCalls::answer(const inference::ModelMetadataRequest& of,
                       inference::ModelMetadataResponse& to) const {
  encode(service_.metadata(of.name(), of.version()), to);
}

void GrpcCalls::answer(const inference::ModelConfigRequest& of,
                       inference::ModelConfigResponse& to) const {
  *to.mutable_config() = service_.config(of.name(), of.version());
}

void GrpcCalls::answer(const inference::ModelStatisticsRequest& of,
                       inference::ModelStatisticsResponse& to) const {
  for (const ModelStatistics& one : service_.statistics(of.name(), of.version()))
    encode(one, *to.add_model_stats());
}

// ---- the repository ----

void GrpcCalls::answer(const inference::RepositoryIndexRequest& of,
                       inference::RepositoryIndexResponse& to) const {
  refuse_repository_name(of.repository_name());
  for (const RepositoryEntry& entry : service_.index()) {
    if (of.ready() && entry.state != "READY") continue;
    auto* model = to.add_models();
    model->set_name(entry.name);
    model->set_version(entry.version);
    model->set_state(entry.state);
    model->set_reason(entry.reason);
  }
}

void GrpcCalls::answer(const inference::RepositoryModelLoadRequest& of,
                       inference::RepositoryModelLoadResponse&) {
  refuse_repository_name(of.repository_name());
  std::map<std::string, std::string> parameters;
  for (const auto& [name, parameter] : of.parameters()) {
    EMBLEM_REQUIRE(parameter.has_string_param() || parameter.has_bytes_param(), "parameter ", name,
                   " of the load must be a string_param or a bytes_param");
    parameters[name] =
        parameter.has_string_param() ? parameter.string_param() : parameter.bytes_param();
  }
  service_.load(of.model_name(), parameters);
}

void GrpcCalls::answer(const inference::RepositoryModelUnloadRequest& of,
                       inference::RepositoryModelUnloadResponse&) {
  refuse_repository_name(of.repository_name());
  for (const auto& [name, parameter] : of.parameters()) {
    // No model depends on another here, so that either value asks for the same.
    EMBLEM_REQUIRE(name == "unload_dependents" && parameter.has_bool_param(), "parameter ", name,
                   " of the unload is unknown; expected unload_dependents (bool_param)");
  }
  service_.unload(of.model_name());
}

// ---- shared memory ----

void GrpcCalls::answer(const inference::SystemSharedMemoryStatusRequest& of,
                       inference::SystemSharedMemoryStatusResponse& to) const {
  for (const SystemRegion& region : regions_.system_status(of.name())) {
    auto& status = (*to.mutable_regions())[region.name];
    status.set_name(region.name);
    status.set_key(region.key);
    status.set_offset(region.offset);
    status.set_byte_size(region.bytes);
  }
}

void GrpcCalls::answer(const inference::SystemSharedMemoryRegisterRequest& of,
                       inference::SystemSharedMemoryRegisterResponse&) {
  regions_.register_system({of.name(), of.key(), of.offset(), of.byte_size()});
}

void GrpcCalls::answer(const inference::SystemSharedMemoryUnregisterRequest& of,
                       inference::SystemSharedMemoryUnregisterResponse&) {
  regions_.unregister_system(of.name());
}

void GrpcCalls::answer(const inference::CudaSharedMemoryStatusRequest& of,
                       inference::CudaSharedMemoryStatusResponse& to) const {
  for (const CudaSharedRegion& region : regions_.cuda_status(of.name())) {
    auto& status = (*to.mutable_regions())[region.name];
    status.set_name(region.name);
    status.set_device_id(static_cast<uint64_t>(region.device));
    status.set_byte_size(region.bytes);
  }
}

void GrpcCalls::answer(const inference::CudaSharedMemoryRegisterRequest& of,
                       inference::CudaSharedMemoryRegisterResponse&) {
  regions_.register_cuda({of.name(), of.raw_handle(), of.device_id(), of.byte_size()});
}

void GrpcCalls::answer(const inference::CudaSharedMemoryUnregisterRequest& of,
                       inference::CudaSharedMemoryUnregisterResponse&) {
  regions_.unregister_cuda(of.name());
}

// ---- traces and logs ----

namespace {

struct FixedTraceSetting {
  const char* name;
  const char* value;
};

// Off, in the terms that clients know.
constexpr FixedTraceSetting kTrace[] = {{"trace_level", "OFF"}, {"trace_rate", "1000"},
                                        {"trace_count", "-1"},  {"log_frequency", "0"},
                                        {"trace_file", ""},     {"trace_mode", "triton"}};

// Asking for what is already so is no change; an empty list means "the default".
bool asks_for_change(const inference::TraceSettingRequest::SettingValue& wanted,
                     std::string_view fixed) {
  return wanted.value_size() > 1 || (wanted.value_size() == 1 && wanted.value(0) != fixed);
}

}  // namespace

void GrpcCalls::answer(const inference::TraceSettingRequest& of,
                       inference::TraceSettingResponse& to) const {
  for (const auto& [name, wanted] : of.settings()) {
    const auto* setting =
        std::find_if(std::begin(kTrace), std::end(kTrace),
                     [&, &key = name](const FixedTraceSetting& one) { return key == one.name; });
    EMBLEM_REQUIRE(setting != std::end(kTrace), "there is no trace setting ", name);
    if (asks_for_change(wanted, setting->value))
      throw Error(ErrorCode::kUnsupported,
                  cat("trace setting ", name, " cannot be changed: this server records no traces"));
  }
  for (const FixedTraceSetting& setting : kTrace)
    (*to.mutable_settings())[setting.name].add_value(setting.value);
}

void GrpcCalls::answer(const inference::LogSettingsRequest& of,
                       inference::LogSettingsResponse& to) const {
  auto& settings = *to.mutable_settings();
  settings["log_file"].set_string_param("");
  settings["log_info"].set_bool_param(true);
  settings["log_warning"].set_bool_param(true);
  settings["log_error"].set_bool_param(true);
  settings["log_verbose_level"].set_uint32_param(0);
  settings["log_format"].set_string_param("default");
  for (const auto& [name, wanted] : of.settings()) {
    const auto found = settings.find(name);
    EMBLEM_REQUIRE(found != settings.end(), "there is no log setting ", name);
    // Both messages have the same fields.
    if (wanted.SerializeAsString() != found->second.SerializeAsString())
      throw Error(ErrorCode::kUnsupported, cat("log setting ", name,
                                               " cannot be changed while the server runs; start it "
                                               "with EMBLEM_LOG=debug|info|warn|error"));
  }
}

}  // namespace emblem
