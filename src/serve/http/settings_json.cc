#include "serve/http/settings_json.h"

#include <algorithm>

#include "serve/http/request_object.h"
#include "serve/protocol/json_writer.h"

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

}  // namespace emblem
