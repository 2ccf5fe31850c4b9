#include "serve/grpc/calls.h"

#include "emblem/api.h"
#include "serve/grpc/messages.h"
#include "serve/protocol/extensions.h"
#include "serve/protocol/log_change.h"

namespace emblem {
namespace {

constexpr const char* kService = "inference.GRPCInferenceService";

void refuse_repository_name(const std::string& name) {
  require_name("a repository", name);
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
  require_name("a model", of.model_name());
  std::map<std::string, std::string> parameters;
  for (const auto& [name, parameter] : of.parameters()) {
    require_name("a parameter", name);
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

// Throws what Triton says when the setting has a value of another type.
template <class Setting>
LogChange log_change(const Setting& settings) {
  LogChange change;
  for (const auto& [name, value] : settings) {
    const auto boolean = [&, &key = name, &one = value] {
      EMBLEM_REQUIRE(one.has_bool_param(), "expect boolean for '", key, "'");
      return one.bool_param();
    };
    if (name == "log_file") {
      change.has_file = true;
    } else if (name == "log_info") {
      change.info = boolean();
    } else if (name == "log_warning") {
      change.warning = boolean();
    } else if (name == "log_error") {
      change.error = boolean();
    } else if (name == "log_verbose_level") {
      EMBLEM_REQUIRE(value.has_uint32_param(), "expect unsigned integer for '", name, "'");
      change.verbose_level = value.uint32_param();
    } else if (name == "log_format") {
      EMBLEM_REQUIRE(value.has_string_param(), "expect string for '", name, "'");
      change.format = value.string_param();
    } else {
      throw Error(ErrorCode::kInvalidArgument, cat("there is no log setting '", name, "'"));
    }
  }
  return change;
}

}  // namespace

void GrpcCalls::answer(const inference::TraceSettingRequest& of,
                       inference::TraceSettingResponse& to) const {
  if (!of.model_name().empty()) service_.metadata(of.model_name(), "");
  if (of.settings_size() > 0) {
    TraceChanges changes;
    for (const auto& [name, values] : of.settings()) {
      changes[name] = std::nullopt;
      if (values.value_size() > 0)
        changes[name].emplace(values.value().begin(), values.value().end());
    }
    service_.tracing().change(of.model_name(), changes);
  }
  for (const auto& [name, values] : service_.tracing().settings(of.model_name())) {
    for (const std::string& value : values) (*to.mutable_settings())[name].add_value(value);
  }
}

void GrpcCalls::answer(const inference::LogSettingsRequest& of,
                       inference::LogSettingsResponse& to) const {
  if (of.settings_size() > 0) change_log_settings(log_change(of.settings()));
  const LogSettings now = log_settings();
  auto& settings = *to.mutable_settings();
  settings["log_file"].set_string_param("");
  settings["log_info"].set_bool_param(now.info);
  settings["log_warning"].set_bool_param(now.warning);
  settings["log_error"].set_bool_param(now.error);
  settings["log_verbose_level"].set_uint32_param(now.verbose_level);
  settings["log_format"].set_string_param(log_format_name(now));
}

}  // namespace emblem
