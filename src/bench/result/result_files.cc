#include "bench/result/result_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/result/result_table.h"
#include "checkpoint/results.h"
#include "core/files/file.h"
#include "core/text/json_error.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr char kTrainLog[] = "train_log.jsonl";
constexpr char kEvaluations[] = "train_eval_result.jsonl";

Json parse_json(std::string_view text, const std::string& source) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw Error(ErrorCode::kInvalidArgument,
                cat(source, " is not JSON: ", json_problem(error.what())));
  }
}

std::vector<ResultLine> read_lines(const std::string& path) {
  std::vector<ResultLine> lines = read_results(path);
  EMBLEM_REQUIRE(!lines.empty(), path,
                 " has no line with a \"global_step\"; expected a training log, e.g. ",
                 R"({"global_step":100,"auc":0.79})");
  return lines;
}

// Adds the numbers of the lines as series named `prefix` + name.
void add_series(const std::vector<ResultLine>& lines, const std::string& prefix,
                BenchResult& result) {
  for (const ResultLine& line : lines) {
    if (line.restored_step) continue;  // repeats an earlier evaluation
    for (const auto& [name, value] : line.values) {
      const std::string key = prefix + name;
      auto at = std::find_if(result.series.begin(), result.series.end(),
                             [&](auto& s) { return s.first == key; });
      if (at == result.series.end()) at = result.series.insert(result.series.end(), {key, {}});
      at->second.emplace_back(line.step, value);
    }
  }
}

// The last value of each metric is the result of a run; the last line may describe restored
// weights.
void add_evaluations(const std::vector<ResultLine>& lines, BenchResult& result) {
  add_series(lines, "", result);
  for (const auto& [name, series] : result.series) {
    const auto last =
        std::find_if(lines.rbegin(), lines.rend(),
                     [&name = name](const ResultLine& line) { return line.values.contains(name); });
    result.metrics.push_back({name, {last->values.at(name), "", usual_direction(name), 0}});
  }
}

BenchResult training_run(std::string name) {
  BenchResult run;
  run.benchmark = "training";
  run.name = std::move(name);
  run.program = "emblem";
  return run;
}

BenchResult read_model_folder(const fs::path& folder) {
  const std::vector<ResultLine> log = read_results((folder / kTrainLog).string()),
                                evaluations = read_results((folder / kEvaluations).string());
  EMBLEM_REQUIRE(!log.empty() || !evaluations.empty(), folder.string(), " has neither ", kTrainLog,
                 " nor ", kEvaluations,
                 " with results; give a folder that `emblem train` wrote, or a file of results");
  const fs::path named = folder.filename().empty() ? folder.parent_path() : folder;
  BenchResult run = training_run(named.filename().string());
  add_evaluations(evaluations, run);
  add_series(log, "train_", run);
  return run;
}

BenchResult read_jsonl(const fs::path& path) {
  const fs::path folder = fs::absolute(path).parent_path();
  BenchResult run = training_run(folder.filename().string());
  const std::vector<ResultLine> lines = read_lines(path.string());
  if (path.filename() == kTrainLog)
    add_series(lines, "train_", run);
  else
    add_evaluations(lines, run);
  return run;
}

std::string text_or_empty(const Json& json, const char* key, const std::string& where) {
  if (!json.contains(key)) return "";
  EMBLEM_REQUIRE(json[key].is_string(), where, ".", key, " is ", json[key].dump(),
                 "; expected text");
  return json[key].get<std::string>();
}

std::string note_of(const ReferenceTable& table) {
  return table.note.empty() ? "" : wrap_text("", table.note, 0);
}

}  // namespace

ReferenceTable parse_reference(std::string_view text, const std::string& source) {
  const Json json = parse_json(text, source);
  EMBLEM_REQUIRE(
      json.is_object() && json.contains("figures") && json["figures"].is_array() &&
          json.contains("metrics") && json["metrics"].is_object(),
      source,
      " is not a table of published figures; expected an object with \"metrics\" and \"figures\"");
  ReferenceTable table;
  table.name = text_or_empty(json, "name", source);
  table.title = text_or_empty(json, "title", source);
  table.note = text_or_empty(json, "note", source);
  for (const auto& [name, unit] : json["metrics"].items())
    table.metrics.emplace_back(name, unit.is_string() ? unit.get<std::string>() : "");
  for (size_t i = 0; i < json["figures"].size(); ++i) {
    const Json& from = json["figures"][i];
    const std::string where = cat(source, ".figures[", i, "]");
    EMBLEM_REQUIRE(from.is_object() && from.contains("values") && from["values"].is_object(), where,
                   " has no \"values\"; expected numbers by metric");
    ReferenceFigure figure;
    figure.system = text_or_empty(from, "system", where);
    figure.hardware = text_or_empty(from, "hardware", where);
    figure.workload = text_or_empty(from, "workload", where);
    figure.settings = text_or_empty(from, "settings", where);
    figure.source = text_or_empty(from, "source", where);
    EMBLEM_REQUIRE(!figure.system.empty() && !figure.source.empty(), where,
                   " has no \"system\" or no \"source\"; add both");
    for (const auto& [name, value] : from["values"].items()) {
      EMBLEM_REQUIRE(value.is_number(), where, ".values.", name, " is ", value.dump(),
                     "; expected a number");
      EMBLEM_REQUIRE(find_named(table.metrics, name) != nullptr, where, ".values has \"", name,
                     "\", which \"metrics\" does not list");
      figure.values.emplace_back(name, value.get<double>());
    }
    table.figures.push_back(std::move(figure));
  }
  return table;
}

ReferenceTable read_reference(const std::string& path) {
  return parse_reference(read_text_file(path), path);
}

std::string find_reference_folder(const std::string& here, const std::string& program) {
  const auto in = [](const fs::path& folder) { return (folder / "bench/reference").string(); };
  std::error_code ignored;
  if (fs::is_directory(in(here), ignored)) return in(here);
  for (fs::path at = program; at.has_relative_path();) {
    at = at.parent_path();
    for (const fs::path& folder : {at, at / "share/emblem"})
      if (fs::is_directory(in(folder), ignored)) return in(folder);
  }
  return "";
}

std::vector<BenchResult> read_report_input(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return {read_model_folder(path)};
  EMBLEM_REQUIRE(fs::exists(path, ignored), path,
                 " does not exist; expected benchmark results (.json), ",
                 "training results (.jsonl) or a model folder");
  if (fs::path(path).extension() == ".jsonl") return {read_jsonl(path)};
  return read_bench_results(path);
}

std::vector<std::string> report_input_files(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return {path};
  return {(fs::path(path) / kTrainLog).string(), (fs::path(path) / kEvaluations).string()};
}

std::string limits_file(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored) ? (fs::path(path) / "metadata.json").string() : path;
}

Named<double> read_limits(const std::string& path) {
  const std::string file = limits_file(path);
  const Json json = parse_json(read_text_file(file), file);
  constexpr std::string_view kBest = "best_";
  Named<double> limits;
  if (json.is_object())
    for (const auto& [key, value] : json.items())
      if (value.is_number() && key.starts_with(kBest))
        limits.emplace_back(key.substr(kBest.size()), value.get<double>());
  EMBLEM_REQUIRE(!limits.empty(), file,
                 " names no best reachable value (best_auc, ...); give the metadata.json of ",
                 "`emblem synth`");
  return limits;
}

std::vector<std::string> references_of(const std::vector<BenchResult>& results) {
  std::vector<std::string> names;
  for (const BenchResult& result : results) {
    const Setting* found = find_named(result.settings, "references");
    if (found == nullptr) continue;
    for (const std::string& name : std::get<std::vector<std::string>>(*found))
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

std::string published_rows(const std::vector<BenchResult>& results, const ReferenceTable& table) {
  if (table.metrics.empty()) return "";
  const auto& [metric, unit] = table.metrics.front();
  const Measure* best = nullptr;
  for (const BenchResult& result : results) {
    const Measure* found = find_named(result.metrics, metric);
    if (found != nullptr && (best == nullptr || times_better(*found, *best) > 1)) best = found;
  }
  if (best == nullptr) return "";
  constexpr size_t kIndent = 30;
  std::string text, workload;
  for (const ReferenceFigure& figure : table.figures) {
    const double* theirs = find_named(figure.values, metric);
    if (theirs == nullptr) continue;
    if (figure.workload != workload) text += wrap_text("", workload = figure.workload, 0);
    const double times = times_better(*best, Measure{*theirs, unit, best->better});
    std::string who = figure.system + "; " + figure.hardware;
    if (!figure.settings.empty()) who += "; " + figure.settings;
    text += wrap_text(fmt::format("  {:>18} {:>7.2f}x", format_metric(*theirs, unit), times), who,
                      kIndent);
  }
  return text + note_of(table);
}

std::string published_latencies(const std::vector<BenchResult>& results,
                                const ReferenceTable& table) {
  std::vector<std::vector<std::string>> rows = {{"batch", "here", "published", "times", "by"}};
  for (const BenchResult& result : results) {
    const Measure* ours = find_named(result.metrics, "latency_p50");
    const Setting* batch = find_named(result.settings, "batch");
    if (ours == nullptr || batch == nullptr || result.name.ends_with("-stream")) continue;
    const std::string settings = fmt::format("batch {}", std::get<int64_t>(*batch));
    for (const ReferenceFigure& figure : table.figures) {
      const double* theirs = find_named(figure.values, "latency");
      if (theirs == nullptr || figure.settings != settings) continue;
      rows.push_back({settings.substr(6), format_metric(ours->value, "s"),
                      format_metric(*theirs, "s"), fmt::format("{:.2f}x", *theirs / ours->value),
                      figure.system + "; " + figure.hardware});
    }
  }
  if (rows.size() == 1) return "";
  return align_columns(rows) + note_of(table);
}

}  // namespace emblem
