#include "serve/protocol/tracing.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>

#include "core/system/log.h"
#include "core/text/text.h"
#include "emblem/error.h"
#include "serve/protocol/encoding/json_writer.h"

namespace emblem {
namespace {

// Messages word for word as Triton's.
template <class Number>
Number parse(const std::string& name, const std::string& text, Number lowest) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error != std::errc::invalid_argument && end == text.data() + text.size();
  EMBLEM_REQUIRE(is_number, "Unable to parse '", name, "', got: ", text);
  EMBLEM_REQUIRE(error == std::errc() && value >= static_cast<int64_t>(lowest) &&
                     value <= static_cast<int64_t>(std::numeric_limits<Number>::max()),
                 "Unable to parse '", name, "', value is out of range [ ", lowest, ", ",
                 std::numeric_limits<Number>::max(), " ], got: ", text);
  return static_cast<Number>(value);
}

std::pair<bool, bool> parse_levels(const std::vector<std::string>& texts) {
  std::pair<bool, bool> levels;
  for (const std::string& text : texts) {
    if (text == "OFF") {
      EMBLEM_REQUIRE(texts.size() == 1, "Expect only one trace level 'OFF' is specified");
    } else if (text == "TIMESTAMPS") {
      levels.first = true;
    } else if (text == "TENSORS") {
      levels.second = true;
    } else {
      throw Error(ErrorCode::kInvalidArgument,
                  cat("trace_level '", text, "' is unknown; expected OFF, TIMESTAMPS or TENSORS"));
    }
  }
  return levels;
}

const std::string& only_one(const std::string& name, const std::vector<std::string>& values) {
  EMBLEM_REQUIRE(values.size() == 1, "expect only 1 value for '", name, "'");
  return values[0];
}

uint64_t nanoseconds(RequestTimes::Time time) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
}

std::string json_of(const RequestTrace& trace, uint64_t id) {
  JsonWriter json;
  json.object([&] {
    json.key("id").number(id);
    json.key("model_name").string(trace.model);
    json.key("model_version").raw(trace.version.empty() ? "-1" : trace.version);
    if (!trace.id.empty()) json.key("request_id").string(trace.id);
  });
  std::string text = std::move(json.text());
  const auto stamp = [&](const char* name, RequestTimes::Time time) {
    if (time == RequestTimes::Time()) return;  // it did not come so far
    text += cat(",{\"id\":", id, ",\"timestamps\":[{\"name\":\"", name,
                "\",\"ns\":", nanoseconds(time), "}]}");
  };
  stamp("REQUEST_START", trace.times.start);
  stamp("QUEUE_START", trace.times.queued);
  stamp("COMPUTE_START", trace.times.compute_start);
  stamp("COMPUTE_INPUT_END", trace.times.input_end);
  stamp("COMPUTE_OUTPUT_START", trace.times.infer_end);
  stamp("COMPUTE_END", trace.times.compute_end);
  stamp("REQUEST_END", trace.times.end);
  return text;
}

}  // namespace

TraceOptions parse_trace_options(const std::vector<std::string>& texts) {
  TraceOptions options;
  std::vector<std::string> levels;
  for (const std::string& text : texts) {
    std::string_view setting = text;
    if (setting.starts_with("triton,")) setting.remove_prefix(7);
    if (setting.starts_with("opentelemetry") || setting == "mode=opentelemetry")
      throw Error(ErrorCode::kUnsupported, "--trace-config: only mode triton is supported");
    const size_t sign = setting.find('=');
    const std::string name(setting.substr(0, sign));
    EMBLEM_REQUIRE(sign != std::string_view::npos, "--trace-config '", text,
                   "' is not of the form NAME=VALUE");
    const std::string value(setting.substr(sign + 1));
    if (name == "file")
      options.file = value;
    else if (name == "level")
      levels.push_back(value);
    else if (name == "rate")
      options.rate = parse<uint32_t>(name, value, 0);
    else if (name == "count")
      options.count = parse<int32_t>(name, value, -1);
    else if (name == "log-frequency")
      options.log_frequency = parse<uint32_t>(name, value, 0);
    else
      EMBLEM_REQUIRE(name == "mode" && value == "triton", "--trace-config '", text,
                     "' is unknown; expected file, level, rate, count, log-frequency or mode");
  }
  std::tie(options.timestamps, options.tensors) = parse_levels(levels);
  return options;
}

Tracing::Tracing() = default;

Tracing::~Tracing() { close_file(); }

void Tracing::start(const TraceOptions& options) {
  const std::lock_guard lock(mutex_);
  options_ = options;
  if (!options_.file.empty() && options_.log_frequency == 0) open_file(0);
  is_on_ = !options_.file.empty() && options_.timestamps;
}

TraceOptions Tracing::effective(const std::string& model) const {
  TraceOptions result = options_;
  const auto apply = [&](const Chosen& chosen) {
    if (chosen.levels) std::tie(result.timestamps, result.tensors) = *chosen.levels;
    if (chosen.rate) result.rate = *chosen.rate;
    if (chosen.count) result.count = *chosen.count;
    if (chosen.log_frequency) result.log_frequency = *chosen.log_frequency;
  };
  if (const auto found = chosen_.find(""); found != chosen_.end()) apply(found->second);
  if (const auto found = chosen_.find(model); found != chosen_.end()) apply(found->second);
  return result;
}

TraceSettings Tracing::settings(const std::string& model) const {
  const std::lock_guard lock(mutex_);
  const TraceOptions now = effective(model);
  std::vector<std::string> levels;
  if (now.timestamps) levels.emplace_back("TIMESTAMPS");
  if (now.tensors) levels.emplace_back("TENSORS");
  if (levels.empty()) levels.emplace_back("OFF");
  return {{"trace_level", levels},
          {"trace_rate", {std::to_string(now.rate)}},
          {"trace_count", {std::to_string(now.count)}},
          {"log_frequency", {std::to_string(now.log_frequency)}},
          {"trace_file", {options_.file}},
          {"trace_mode", {"triton"}}};
}

Tracing::Chosen Tracing::changed(Chosen chosen, const TraceChanges& changes) {
  if (changes.contains("trace_file"))
    throw Error(ErrorCode::kUnsupported,
                "trace file location can not be updated through network protocol");
  for (const auto& [name, values] : changes) {
    if (name == "trace_level") {
      chosen.levels.reset();
      if (values) chosen.levels = parse_levels(*values);
    } else if (name == "trace_rate") {
      chosen.rate.reset();
      if (values) chosen.rate = parse<uint32_t>(name, only_one(name, *values), 0);
    } else if (name == "trace_count") {
      chosen.count.reset();
      if (values) chosen.count = parse<int32_t>(name, only_one(name, *values), -1);
    } else if (name == "log_frequency") {
      chosen.log_frequency.reset();
      if (values) chosen.log_frequency = parse<uint32_t>(name, only_one(name, *values), 0);
    } else {
      throw Error(ErrorCode::kInvalidArgument,
                  cat("there is no trace setting '", printable(name),
                      "' to change; expected trace_level, trace_rate, trace_count or "
                      "log_frequency"));
    }
  }
  return chosen;
}

void Tracing::change(const std::string& model, const TraceChanges& changes) {
  const std::lock_guard lock(mutex_);
  const auto found = chosen_.find(model);
  chosen_[model] = changed(found == chosen_.end() ? Chosen{} : found->second, changes);
  bool is_on = effective("").timestamps;
  for (const auto& [name, chosen] : chosen_) is_on = is_on || effective(name).timestamps;
  is_on_ = is_on && !options_.file.empty();
}

std::shared_ptr<RequestTrace> Tracing::sample(const std::string& model) {
  if (!is_on_.load(std::memory_order_relaxed)) return nullptr;
  const std::lock_guard lock(mutex_);
  const TraceOptions now = effective(model);
  if (!now.timestamps || now.rate == 0 || now.count == 0) return nullptr;
  // Requests of models without settings of their own count together.
  const std::string key = chosen_.contains(model) ? model : "";
  Chosen& chosen = chosen_[key];
  if (++chosen.seen % now.rate != 0) return nullptr;
  if (now.count > 0) {
    Chosen& owner = chosen.count || key.empty() ? chosen : chosen_[""];
    owner.count = now.count - 1;
  }
  auto trace = std::make_shared<RequestTrace>();
  trace->model = model;
  return trace;
}

void Tracing::open_file(uint32_t log_frequency) {
  close_file();
  const std::string path =
      log_frequency == 0 ? options_.file : cat(options_.file, ".", next_file_++);
  file_ = std::fopen(path.c_str(), "w");
  if (file_ == nullptr)
    throw Error(ErrorCode::kUnavailable,
                cat("cannot write traces to ", path, ": ", std::strerror(errno)));
  traces_in_file_ = 0;
}

void Tracing::close_file() {
  if (file_ != nullptr) std::fclose(file_);
  file_ = nullptr;
}

// The file is a JSON array after every trace: the next one begins where its bracket is.
void Tracing::write(const RequestTrace& trace) {
  const std::lock_guard lock(mutex_);
  const uint32_t frequency = effective(trace.model).log_frequency;
  const bool is_full = frequency > 0 && traces_in_file_ >= frequency;
  if (file_ == nullptr || is_full) open_file(frequency);
  const std::string text = json_of(trace, next_id_++);
  if (traces_in_file_++ > 0) std::fseek(file_, -1, SEEK_CUR);
  std::fprintf(file_, "%s%s]", traces_in_file_ == 1 ? "[" : ",", text.c_str());
  if (std::fflush(file_) == 0) return;
  log_warn(cat("tracing stopped: ", options_.file, " cannot be written: ", std::strerror(errno)));
  is_on_ = false;
}

}  // namespace emblem
