#include "serve/http/api/metadata_json.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/text/shallow_json.h"
#include "emblem/api.h"
#include "serve/http/message/request_object.h"
#include "serve/protocol/encoding/json_writer.h"
#include "serve/protocol/extensions.h"
#include "serve/protocol/model_config.pb.h"

namespace emblem {
namespace {

// A setting's values: a text, a number or a list of texts; null: none.
std::optional<std::vector<std::string>> read_values(JsonReader& json) {
  std::vector<std::string> values;
  switch (json.kind()) {
    case JsonReader::Kind::kNull:
      json.skip();
      return std::nullopt;
    case JsonReader::Kind::kArray:
      json.array([&] { values.push_back(json.string()); });
      return values;
    case JsonReader::Kind::kString:
      return std::vector<std::string>{json.string()};
    default:
      return std::vector<std::string>{std::string(json.raw())};
  }
}

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

void write_tensors(JsonWriter& json, const std::vector<TensorMetadata>& tensors) {
  json.array([&] {
    for (const TensorMetadata& tensor : tensors) {
      json.object([&] {
        json.key("name").string(tensor.name);
        json.key("datatype").string(name_of(tensor.type));
        json.key("shape").array([&] {
          for (const int64_t size : tensor.shape) json.number(size);
        });
        if (tensor.parameters.empty()) return;
        json.key("parameters").object([&] {
          for (const auto& [name, value] : tensor.parameters) json.key(name).string(value);
        });
      });
    }
  });
}

void write_duration(JsonWriter& json, const char* name, const DurationCount& duration) {
  json.key(name).object([&] {
    json.key("count").number(duration.count);
    json.key("ns").number(duration.ns);
  });
}

void write_statistics(JsonWriter& json, const ModelStatistics& one) {
  json.key("name").string(one.name);
  json.key("version").string(one.version);
  json.key("last_inference").number(one.last_inference_ms);
  json.key("inference_count").number(one.inference_count);
  json.key("execution_count").number(one.execution_count);
  json.key("inference_stats").object([&] {
    write_duration(json, "success", one.success);
    write_duration(json, "fail", one.fail);
    write_duration(json, "queue", one.queue);
    write_duration(json, "compute_input", one.compute_input);
    write_duration(json, "compute_infer", one.compute_infer);
    write_duration(json, "compute_output", one.compute_output);
    write_duration(json, "cache_hit", {});
    write_duration(json, "cache_miss", {});
  });
  json.key("response_stats").object([] {});
  json.key("batch_stats").array([&] {
    for (const auto& [size, batch] : one.by_batch) {
      json.object([&, size = size, &batch = batch] {
        json.key("batch_size").number(size);
        write_duration(json, "compute_input", batch.compute_input);
        write_duration(json, "compute_infer", batch.compute_infer);
        write_duration(json, "compute_output", batch.compute_output);
      });
    }
  });
  json.key("memory_usage").array([] {});
}

// protobuf writes 64-bit integers as strings; clients of this protocol know them as numbers.
void unquote_integers(nlohmann::json& message, const Descriptor& type);

void unquote_value(nlohmann::json& value, const FieldDescriptor& field) {
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT64 && value.is_string()) {
    value = std::stoll(value.get<std::string>());
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_UINT64 && value.is_string()) {
    value = std::stoull(value.get<std::string>());
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    unquote_integers(value, *field.message_type());
  }
}

void unquote_integers(nlohmann::json& message, const Descriptor& type) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const auto found = message.find(field.name());
    if (found == message.end()) continue;
    if (field.is_map()) {
      for (auto& value : *found) unquote_value(value, *field.message_type()->map_value());
    } else if (field.is_repeated()) {
      for (auto& value : *found) unquote_value(value, field);
    } else {
      unquote_value(*found, field);
    }
  }
}

}  // namespace

TraceChanges read_trace_changes(const HttpRequest& request) {
  TraceChanges changes;
  read_object(request, [&](JsonReader& json, std::string_view key) {
    changes[std::string(key)] = read_values(json);
  });
  return changes;
}

LogChange read_log_change(const HttpRequest& request) {
  LogChange change;
  read_object(request, [&](JsonReader& json, std::string_view key) {
    if (json.kind() == JsonReader::Kind::kNull) return json.skip();
    if (key == "log_file") {
      change.has_file = true;
      json.skip();
    } else if (key == "log_info") {
      change.info = json.boolean();
    } else if (key == "log_warning") {
      change.warning = json.boolean();
    } else if (key == "log_error") {
      change.error = json.boolean();
    } else if (key == "log_verbose_level") {
      change.verbose_level = static_cast<uint32_t>(std::min<uint64_t>(json.uint64(), UINT32_MAX));
    } else if (key == "log_format") {
      change.format = json.string();
    } else {
      throw Error(ErrorCode::kInvalidArgument, cat("there is no log setting '", key, "'"));
    }
  });
  return change;
}

std::string trace_settings_json(const TraceSettings& settings) {
  JsonWriter json;
  json.object([&] {
    for (const auto& [name, values] : settings) {
      json.key(name);
      if (name != "trace_level") {
        json.string(values[0]);
        continue;
      }
      json.array([&, &values = values] {
        for (const std::string& level : values) json.string(level);
      });
    }
  });
  return std::move(json.text());
}

std::string log_settings_json(const LogSettings& settings) {
  JsonWriter json;
  json.object([&] {
    json.key("log_file").string("");
    json.key("log_info").boolean(settings.info);
    json.key("log_warning").boolean(settings.warning);
    json.key("log_error").boolean(settings.error);
    json.key("log_verbose_level").number(settings.verbose_level);
    json.key("log_format").string(log_format_name(settings));
  });
  return std::move(json.text());
}

std::string server_metadata_json(bool shared_memory) {
  JsonWriter json;
  json.object([&] {
    json.key("name").string("emblem");
    json.key("version").string(kVersion);
    json.key("extensions").array([&] {
      for (const std::string& extension : protocol_extensions(shared_memory))
        json.string(extension);
    });
  });
  return std::move(json.text());
}

std::string model_metadata_json(const ModelMetadata& metadata) {
  JsonWriter json;
  json.object([&] {
    json.key("name").string(metadata.name);
    json.key("versions").array([&] {
      for (const std::string& version : metadata.versions) json.string(version);
    });
    json.key("platform").string(metadata.platform);
    json.key("inputs");
    write_tensors(json, metadata.inputs);
    json.key("outputs");
    write_tensors(json, metadata.outputs);
  });
  return std::move(json.text());
}

std::string model_config_json(const inference::ModelConfig& config) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(config, &text, options);
  if (!status.ok())
    throw Error(ErrorCode::kInternal, cat("the configuration of ", config.name(),
                                          " cannot be written as JSON: ", status.ToString()));
  nlohmann::json json = nlohmann::json::parse(text, shallow_json);
  unquote_integers(json, *config.GetDescriptor());
  return json.dump();
}

std::string statistics_json(const std::vector<ModelStatistics>& statistics) {
  JsonWriter json;
  json.object([&] {
    json.key("model_stats").array([&] {
      for (const ModelStatistics& one : statistics)
        json.object([&] { write_statistics(json, one); });
    });
  });
  return std::move(json.text());
}

std::string items_changed_json(const std::string& model, const ItemsChanged& changed) {
  JsonWriter json;
  json.object([&] {
    json.key("model_name").string(model);
    json.key("model_version").string(changed.version);
    json.key("change").number(changed.change);
    json.key("items").number(changed.items);
  });
  return std::move(json.text());
}

std::string repository_index_json(const std::vector<RepositoryEntry>& entries, bool only_ready) {
  JsonWriter json;
  json.array([&] {
    for (const RepositoryEntry& entry : entries) {
      if (only_ready && entry.state != "READY") continue;
      json.object([&] {
        json.key("name").string(entry.name);
        if (!entry.version.empty()) json.key("version").string(entry.version);
        json.key("state").string(entry.state);
        json.key("reason").string(entry.reason);
      });
    }
  });
  return std::move(json.text());
}

std::string regions_json(const std::vector<SystemRegion>& regions) {
  JsonWriter json;
  json.array([&] {
    for (const SystemRegion& region : regions) {
      json.object([&] {
        json.key("name").string(region.name);
        json.key("key").string(region.key);
        json.key("offset").number(region.offset);
        json.key("byte_size").number(region.bytes);
      });
    }
  });
  return std::move(json.text());
}

std::string regions_json(const std::vector<CudaSharedRegion>& regions) {
  JsonWriter json;
  json.array([&] {
    for (const CudaSharedRegion& region : regions) {
      json.object([&] {
        json.key("name").string(region.name);
        json.key("device_id").number(region.device);
        json.key("byte_size").number(region.bytes);
      });
    }
  });
  return std::move(json.text());
}

}  // namespace emblem
