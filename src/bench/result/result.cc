#include "bench/result/result.h"

#include <sys/utsname.h>

#include <cmath>
#include <ctime>
#include <filesystem>
#include <limits>

#include "config/feature/metrics.h"
#include "core/files/file.h"
#include "core/system/process.h"
#include "core/text/json_field.h"
#include "core/text/text.h"
#include "core/threads/thread_pool.h"
#include "emblem/api.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using Json = JsonField::Json;

constexpr int64_t kSchema = 1;

using Field = JsonField;

// JSON has no NaN: it is written as null, and null is read as NaN.
double read_number(const Field& field) {
  return field.json().is_null() ? std::numeric_limits<double>::quiet_NaN() : field.number();
}

Setting read_setting(const Field& field) {
  const Json& json = field.json();
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (!json.is_array()) field.refuse("true, false, a number, text or a list of text");
  std::vector<std::string> list;
  for (const Json& item : json)
    list.push_back(item.is_string() ? item.get<std::string>() : item.dump());
  return list;
}

std::vector<double> read_numbers(const Field& field) {
  std::vector<double> numbers;
  for (size_t i = 0; i < field.size(); ++i) numbers.push_back(read_number(field[i]));
  return numbers;
}

Measure read_metric(const Field& field) {
  Measure metric;
  field.refuse_unknown({"value", "unit", "higher_is_better", "spread", "interval", "samples"});
  metric.value = read_number(field["value"]);
  if (field.has("unit")) metric.unit = field["unit"].text();
  if (field.has("spread")) metric.spread = read_number(field["spread"]);
  if (field.has("samples")) metric.samples = read_numbers(field["samples"]);
  if (field.has("interval")) {
    const std::vector<double> ends = read_numbers(field["interval"]);
    if (ends.size() != 2) field["interval"].refuse("[low, high]");
    metric.interval = {ends[0], ends[1]};
  }
  if (field.has("higher_is_better"))
    metric.better = field["higher_is_better"].flag() ? Better::kHigher : Better::kLower;
  return metric;
}

Series read_series(const Field& field) {
  Series series;
  for (size_t i = 0; i < field.size(); ++i) {
    const Field point = field[i];
    if (!point.json().is_array() || point.size() != 2 || !point.json()[0].is_number())
      point.refuse("[step, value]");
    series.emplace_back(point[size_t{0}].number(), read_number(point[1]));
    if (i > 0 && series[i].first < series[i - 1].first)
      point.refuse(cat("a step of at least ", series[i - 1].first, ", the previous one"));
  }
  return series;
}

template <class Read>
auto read_named(const Field& field, Read read) {
  Named<decltype(read(field))> items;
  for (const auto& [key, value] : field.members()) items.emplace_back(key, read(value));
  return items;
}

Machine read_machine(const Field& field) {
  Machine machine;
  field.refuse_unknown({"cpu", "cores", "memory", "gpu", "driver", "os", "compiler", "flags"});
  const auto text = [&](const char* key, std::string& to) {
    if (field.has(key)) to = field[key].text();
  };
  text("cpu", machine.cpu);
  text("gpu", machine.gpu);
  text("driver", machine.driver);
  text("flags", machine.flags);
  text("os", machine.os);
  text("compiler", machine.compiler);
  if (field.has("cores")) machine.cores = static_cast<int>(field["cores"].integer());
  if (field.has("memory")) machine.memory_bytes = field["memory"].integer();
  return machine;
}

BenchResult read_result(const Field& field) {
  field.refuse_unknown({"schema", "benchmark", "name", "program", "machine", "date", "settings",
                        "metrics", "stages", "ceilings", "shares", "series"});
  for (const char* key : {"schema", "benchmark", "name", "program"})
    EMBLEM_REQUIRE(field.has(key), field.place(), " has no \"", key,
                   "\"; a benchmark result needs schema, benchmark, name and program");
  const int64_t schema = field["schema"].integer();
  EMBLEM_REQUIRE(schema == kSchema, field.place(), " has schema ", schema,
                 ", but this program reads ", kSchema, "; use the emblem that wrote it");

  BenchResult result;
  result.benchmark = field["benchmark"].text();
  result.name = field["name"].text();
  result.program = field["program"].text();
  if (field.has("machine")) result.machine = read_machine(field["machine"]);
  if (field.has("date")) result.date = field["date"].text();
  if (field.has("settings")) result.settings = read_named(field["settings"], read_setting);
  if (field.has("metrics")) result.metrics = read_named(field["metrics"], read_metric);
  if (field.has("stages")) result.stages = read_named(field["stages"], read_number);
  if (field.has("ceilings")) result.ceilings = read_named(field["ceilings"], read_number);
  if (field.has("shares")) result.shares = read_named(field["shares"], read_number);
  if (field.has("series")) result.series = read_named(field["series"], read_series);
  return result;
}

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json numbers_to_json(const Named<double>& items) {
  Json json = Json::object();
  for (const auto& [name, value] : items) json[name] = number_or_null(value);
  return json;
}

Json machine_to_json(const Machine& machine) {
  Json json = {{"cpu", machine.cpu}, {"cores", machine.cores}, {"memory", machine.memory_bytes}};
  if (!machine.gpu.empty()) json["gpu"] = machine.gpu;
  if (!machine.driver.empty()) json["driver"] = machine.driver;
  json["os"] = machine.os;
  json["compiler"] = machine.compiler;
  if (!machine.flags.empty()) json["flags"] = machine.flags;
  return json;
}

Json result_to_json(const BenchResult& result) {
  Json json = {{"schema", kSchema},
               {"benchmark", result.benchmark},
               {"name", result.name},
               {"program", result.program},
               {"machine", machine_to_json(result.machine)},
               {"date", result.date}};
  json["settings"] = Json::object();
  for (const auto& [name, setting] : result.settings)
    std::visit([&, &key = name](const auto& value) { json["settings"][key] = value; }, setting);
  json["metrics"] = Json::object();
  for (const auto& [name, metric] : result.metrics) {
    Json& to = json["metrics"][name];
    to = {{"value", number_or_null(metric.value)},
          {"unit", metric.unit},
          {"higher_is_better", metric.better == Better::kHigher}};
    if (metric.spread != 0) to["spread"] = number_or_null(metric.spread);
    if (metric.interval)
      to["interval"] = {number_or_null(metric.interval->low),
                        number_or_null(metric.interval->high)};
    for (const double sample : metric.samples) to["samples"].push_back(number_or_null(sample));
  }
  json["stages"] = numbers_to_json(result.stages);
  json["ceilings"] = numbers_to_json(result.ceilings);
  json["shares"] = numbers_to_json(result.shares);
  json["series"] = Json::object();
  for (const auto& [name, series] : result.series) {
    Json& to = json["series"][name] = Json::array();
    for (const auto& [step, value] : series) to.push_back({step, number_or_null(value)});
  }
  return json;
}

}  // namespace

std::vector<BenchResult> parse_bench_results(std::string_view text, const std::string& source) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw Error(ErrorCode::kInvalidArgument,
                cat(source, " is not JSON (from byte ", error.byte,
                    " on); expected a result that emblem bench writes with --json"));
  }
  std::vector<BenchResult> results;
  if (!json.is_array()) {
    results.push_back(read_result({json, source}));
    return results;
  }
  for (size_t i = 0; i < json.size(); ++i)
    results.push_back(read_result({json[i], cat(source, "[", i, "]")}));
  return results;
}

std::string to_json(const std::vector<BenchResult>& results) {
  Json json = Json::array();
  for (const BenchResult& result : results) json.push_back(result_to_json(result));
  // Text that is not UTF-8 (a CPU's name, a path) is replaced: that must not lose the result.
  return (results.size() == 1 ? json[0] : json)
             .dump(1, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

std::vector<BenchResult> read_bench_results(const std::string& path) {
  return parse_bench_results(read_text_file(path), path);
}

void write_bench_results(const std::string& path, const std::vector<BenchResult>& results) {
  write_text_file_atomically(path, to_json(results));
}

Better usual_direction(std::string_view metric) {
  if (const auto direction = direction_of_metric(metric))
    return *direction == MetricDirection::kLowerIsBetter ? Better::kLower : Better::kHigher;
  if (metric.find("per_second") != std::string_view::npos) return Better::kHigher;
  for (const char* part :
       {"loss", "mae", "mse", "error", "entropy", "seconds", "latency", "memory"})
    if (metric.find(part) != std::string_view::npos) return Better::kLower;
  return Better::kHigher;
}

Machine this_machine() {
  Machine machine;
  machine.cpu = cpu_model();
  machine.cores = available_cpus();
  machine.memory_bytes = total_memory_bytes();
  machine.gpu = gpu_model();
  machine.driver = gpu_driver();
  utsname name{};
  if (uname(&name) == 0) machine.os = cat(name.sysname, " ", name.release, " ", name.machine);
#if defined(__clang__)
  machine.compiler = "clang " __clang_version__;
#elif defined(__GNUC__)
  machine.compiler = "gcc " __VERSION__;
#endif
  machine.flags = EMBLEM_BUILD_FLAGS;
  return machine;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

BenchResult begin_result(std::string benchmark, std::string name) {
  BenchResult result;
  result.benchmark = std::move(benchmark);
  result.name = std::move(name);
  result.program = cat("emblem ", kVersion);
  result.machine = this_machine();
  result.date = utc_now();
  return result;
}

}  // namespace emblem
