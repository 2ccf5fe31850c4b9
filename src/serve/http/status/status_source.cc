#include "core/system/process.h"
#include "emblem/api.h"
#include "serve/http/status/status_page.h"
#include "serve/protocol/encoding/json_writer.h"

namespace emblem {
namespace {

void write_counts(JsonWriter& json, const ModelStatistics& one) {
  const auto duration = [&](const char* count, const char* ns, const DurationCount& of) {
    json.key(count).number(of.count);
    json.key(ns).number(of.ns);
  };
  json.key("rows").number(one.inference_count);
  json.key("executions").number(one.execution_count);
  json.key("last_ms").number(one.last_inference_ms);
  duration("success", "success_ns", one.success);
  duration("fail", "fail_ns", one.fail);
  duration("queue", "queue_ns", one.queue);
  duration("compute_input", "compute_input_ns", one.compute_input);
  duration("compute_infer", "compute_infer_ns", one.compute_infer);
  duration("compute_output", "compute_output_ns", one.compute_output);
  json.key("rejected").number(one.rejected);
  json.key("cancelled").number(one.cancelled);
  json.key("pending").number(one.pending);
  json.key("load_s").number(one.load_seconds);
  json.key("latency").array([&] {
    for (size_t i = 0; i < one.latency.buckets().size(); ++i) {
      if (one.latency.buckets()[i] == 0) continue;
      json.array([&] {
        json.number(i);
        json.number(one.latency.buckets()[i]);
      });
    }
  });
  json.key("batches").array([&] {
    for (const auto& [size, batch] : one.by_batch) {
      json.array([&, size = size, &batch = batch] {
        json.number(size);
        json.number(batch.compute_infer.count);
      });
    }
  });
}

void write_models(JsonWriter& json, const InferenceService& service) {
  const std::vector<ModelStatistics> statistics = service.statistics("", "");
  json.key("models").array([&] {
    for (const RepositoryEntry& entry : service.index()) {
      json.object([&] {
        json.key("name").string(entry.name);
        json.key("version").string(entry.version);
        json.key("state").string(entry.state);
        json.key("reason").string(entry.reason);
        for (const ModelStatistics& one : statistics) {
          if (one.name == entry.name && one.version == entry.version) write_counts(json, one);
        }
      });
    }
  });
}

// The labels between the braces of name{a="b",c="d"}.
void write_labels(JsonWriter& json, std::string_view text) {
  json.key("labels").object([&] {
    for (;;) {
      const size_t equals = text.find("=\"");
      if (equals == std::string_view::npos) return;
      const std::string_view name = text.substr(text.find_first_not_of(", "), equals);
      std::string value;
      size_t at = equals + 2;
      for (; at < text.size() && text[at] != '"'; ++at) {
        if (text[at] == '\\' && at + 1 < text.size()) ++at;
        value += text[at];
      }
      json.key(name.substr(0, name.find('='))).string(value);
      if (at >= text.size()) return;
      text.remove_prefix(at + 1);
    }
  });
}

void write_metric(JsonWriter& json, std::string_view line) {
  const size_t brace = line.find('{');
  const size_t end = brace == std::string_view::npos ? line.find(' ') : line.rfind('}');
  if (end == std::string_view::npos) return;
  const std::string_view name = line.substr(0, brace == std::string_view::npos ? end : brace);
  std::string_view value = line.substr(end + 1);
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  json.object([&] {
    json.key("name").string(name);
    write_labels(json, brace == std::string_view::npos ? std::string_view()
                                                       : line.substr(brace + 1, end - brace - 1));
    json.key("value").string(value.substr(0, value.find(' ')));
  });
}

void write_metrics(JsonWriter& json, std::string_view text) {
  json.key("metrics").array([&] {
    while (!text.empty()) {
      const size_t newline = text.find('\n');
      const std::string_view line = text.substr(0, newline);
      if (!line.empty() && line[0] != '#') write_metric(json, line);
      text = newline == std::string_view::npos ? std::string_view() : text.substr(newline + 1);
    }
  });
}

}  // namespace

std::string StatusSource::json() {
  const std::chrono::duration<double> uptime = std::chrono::steady_clock::now() - began_;
  const std::chrono::duration<double> since_1970 =
      std::chrono::system_clock::now().time_since_epoch();
  JsonWriter json;
  json.object([&] {
    json.key("server").string("emblem");
    json.key("version").string(kVersion);
    json.key("ready").boolean(service_.is_ready());
    json.key("uptime_s").number(uptime.count());
    json.key("time_s").number(since_1970.count());
    json.key("cpu").number(cpu_.share());
    json.key("memory_used").number(used_memory_bytes());
    json.key("memory_total").number(total_memory_bytes());
    json.key("resident").number(resident_bytes());
    write_models(json, service_);
    write_metrics(json, service_.extra_metrics());
  });
  return std::move(json.text());
}

}  // namespace emblem
