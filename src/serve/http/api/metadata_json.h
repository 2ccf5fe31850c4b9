// serve/http/api/metadata_json.h - the metadata of a service as the JSON of the inference
// protocol.
#pragma once

#include <string>
#include <vector>

#include "serve/http/message/message.h"
#include "serve/protocol/inference_service.h"
#include "serve/protocol/log_change.h"
#include "serve/protocol/shared_memory.h"
#include "serve/protocol/tracing.h"

namespace emblem {

// Both throw kInvalidArgument for a body that is malformed, the latter for unknown settings, too.
TraceChanges read_trace_changes(const HttpRequest& request);
LogChange read_log_change(const HttpRequest& request);

std::string trace_settings_json(const TraceSettings& settings);
std::string log_settings_json(const LogSettings& settings);

std::string server_metadata_json(bool shared_memory);
std::string model_metadata_json(const ModelMetadata& metadata);
// JSON with the names of the .proto and every plain field, also those that are not set.
std::string model_config_json(const inference::ModelConfig& config);
std::string statistics_json(const std::vector<ModelStatistics>& statistics);
std::string items_changed_json(const std::string& model, const ItemsChanged& changed);
std::string repository_index_json(const std::vector<RepositoryEntry>& entries, bool only_ready);
std::string regions_json(const std::vector<SystemRegion>& regions);
std::string regions_json(const std::vector<CudaSharedRegion>& regions);

// What clients get that ask for settings of tracing and logging: both cannot be changed.

}  // namespace emblem
