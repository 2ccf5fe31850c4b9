#include "bench/judge/suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/judge/suite_run.h"
#include "bench/report/svg.h"
#include "bench/result/result_table.h"
#include "config/load/load.h"
#include "core/files/file.h"
#include "core/math/checksum.h"
#include "data/source/remote_storage.h"
#include "emblem/api.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr size_t kShownLogLines = 5;

const char* colour_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kBetter:
      return "\033[1;32m";  // green
    case Verdict::kWorse:
    case Verdict::kUnreliable:
      return "\033[1;31m";  // red
    case Verdict::kMixed:
      return "\033[1;33m";  // yellow
    default:
      return "\033[1m";
  }
}

std::string headline(const ConfigOutcome& outcome, Colour colour) {
  std::string verdict = to_text(outcome.verdict);
  if (colour == Colour::kAnsi) verdict = colour_of(outcome.verdict) + verdict + "\033[0m";
  std::string line = cat(verdict, "  ", outcome.config);
  if (!outcome.runs.empty()) {
    line += cat("  (", outcome.runs.size(), outcome.runs.size() == 1 ? " run" : " runs");
    if (outcome.failures() > 0) line += cat(", ", outcome.failures(), " failed");
    line += ")";
  }
  if (!outcome.reason.empty()) line += cat(": ", outcome.reason);
  return line + "\n";
}

std::string word_for(Change change) {
  switch (change) {
    case Change::kBetter:
      return "better";
    case Change::kWorse:
      return "worse";
    case Change::kBalanced:
      return "balanced";
    case Change::kMissing:
      return "missing";
    case Change::kNotCompared:
      return "";
  }
  return "";
}

// Six digits for metrics of quality, three for speed.
std::string number(double value, const std::string& unit) {
  return unit.empty() ? fmt::format("{:.6g}", value) : format_metric(value, unit);
}

std::vector<std::string> row_of(const MetricOutcome& metric) {
  const Measure& measure = metric.measure;
  const bool measured = !measure.samples.empty();
  std::vector<std::string> row = {"  " + metric.name};
  row.push_back(measured ? number(measure.value, measure.unit) : "-");
  row.push_back(measure.samples.size() > 1 ? number(measure.spread, measure.unit) : "-");
  row.push_back(measure.interval ? cat(number(measure.interval->low, measure.unit), " to ",
                                       number(measure.interval->high, measure.unit))
                                 : "-");
  row.push_back(metric.baseline ? cat(number(metric.baseline->value, measure.unit), " ± ",
                                      number(metric.baseline->margin(), measure.unit))
                                : "-");
  std::string verdict = word_for(metric.change);
  if (!metric.note.empty()) verdict += (verdict.empty() ? "" : ": ") + metric.note;
  row.push_back(verdict);
  return row;
}

std::string failed_runs(const ConfigOutcome& outcome) {
  std::string text;
  for (const SuiteRun& run : outcome.runs) {
    if (!run.failed()) continue;
    text += cat("  seed ", run.seed, " failed: ", run.failure, "\n    log: ", run.log, "\n");
    for (const std::string& line : last_lines(run.log, kShownLogLines))
      text += "    | " + line + "\n";
  }
  return text;
}

std::string load_note(const ConfigOutcome& outcome) {
  double most = 0;
  for (const SuiteRun& run : outcome.runs) most = std::max(most, run.other_load);
  constexpr double kWorthSaying = 0.1;
  if (most < kWorthSaying) return "";
  return fmt::format(
      "  Other processes used up to {:.0f} % of the CPU time; thresholds of speed are relaxed.\n",
      100 * most);
}

constexpr size_t kLogLines = 50;

// Escaped for text and attributes, line by line.
std::string safe(const std::string& text) {
  std::string out;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    out += escape_markup(std::string_view(text).substr(begin, end - begin));
    if (end < text.size()) out += '\n';
    begin = end + 1;
  }
  return out;
}

double seconds_of(const ConfigOutcome& outcome) {
  double seconds = 0;
  for (const SuiteRun& run : outcome.runs) seconds += run.seconds;
  return seconds;
}

std::string logs_of(const ConfigOutcome& outcome) {
  std::string text;
  for (const SuiteRun& run : outcome.runs) {
    if (!run.failed()) continue;
    text += cat("seed ", run.seed, ": ", run.failure, "\n");
    for (const std::string& line : last_lines(run.log, kLogLines)) text += line + "\n";
  }
  return text;
}

std::string test_case(const ConfigOutcome& outcome) {
  std::string xml = cat("  <testcase classname=\"emblem.suite\" name=\"", safe(outcome.config),
                        "\" time=\"", seconds_of(outcome), "\">\n");
  const std::string table = suite_text({outcome}, Colour::kNone);
  if (outcome.verdict == Verdict::kWorse)
    xml += cat("    <failure message=\"WORSE than the baseline\">", safe(table), "</failure>\n");
  if (outcome.verdict == Verdict::kUnreliable)
    xml += cat("    <error message=\"UNRELIABLE: ", safe(outcome.reason), "\">",
               safe(logs_of(outcome)), "</error>\n");
  if (outcome.verdict == Verdict::kSkipped)
    xml += cat("    <skipped message=\"", safe(outcome.reason), "\"/>\n");
  return xml + cat("    <system-out>", safe(table), "</system-out>\n  </testcase>\n");
}

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int64_t kDefaultRuns = 3;
constexpr char kPlanFile[] = "plan.json", kResultFile[] = "suite.json", kJunitFile[] = "junit.xml";

struct PlannedConfig {
  std::string config;
  const Baseline* baseline = nullptr;
  std::vector<RunPlan> runs;
  std::string skipped;  // the reason for skipping it; empty: not skipped
};

std::string checksum_of_file(const std::string& path) {
  const MappedFile file(path);
  return cat(std::hex, checksum_of(file.bytes().data(), file.bytes().size()));
}

// "configs/criteo/dlrm.config" -> "configs_criteo_dlrm"
std::string run_name(const std::string& config) {
  std::string name = fs::path(config).lexically_normal().replace_extension().generic_string();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '/' || c == '\\'; }, '_');
  return name.substr(std::min(name.find_first_not_of("._"), name.size()));
}

// Why its data cannot be read, if the baseline declares them optional.
std::string missing_data(const std::string& config, const std::vector<std::string>& overrides) {
  const config::PipelineConfig pipeline = load_pipeline(config, overrides);
  const std::string input = pipeline.train_input_path();
  try {
    expand_inputs(input, open_storage(pipeline.data_config()));
    return "";
  } catch (const Error&) {
    return cat("its data are missing: ", input);
  }
}

PlannedConfig plan_config(const SuiteOptions& options, const std::string& config,
                          const std::string& name) {
  PlannedConfig plan;
  plan.config = config;
  plan.baseline = find_baseline(options.baselines, config);
  const Baseline* baseline = plan.baseline;
  std::vector<std::string> overrides;
  if (baseline != nullptr) overrides = baseline->overrides;
  overrides.insert(overrides.end(), options.overrides.begin(), options.overrides.end());
  if (baseline != nullptr && baseline->optional_data)
    plan.skipped = missing_data(config, overrides);
  int64_t runs = options.runs;
  if (runs == 0) runs = baseline != nullptr ? baseline->runs : kDefaultRuns;
  const double timeout = baseline != nullptr && baseline->timeout_seconds > 0
                             ? baseline->timeout_seconds
                             : options.timeout_seconds;
  for (int64_t i = 0; i < runs; ++i) {
    const int64_t seed = options.first_seed + i;
    plan.runs.push_back({.config = config,
                         .name = cat(name, "-seed", seed),
                         .seed = seed,
                         .overrides = overrides,
                         .arguments = options.arguments,
                         .timeout_seconds = timeout,
                         .program = options.program,
                         .out = options.out,
                         .keep_model = options.models == SuiteOptions::Models::kKeep});
  }
  return plan;
}

std::vector<PlannedConfig> plan_suite(const SuiteOptions& options) {
  std::vector<PlannedConfig> plans;
  std::vector<std::string> names;
  for (const std::string& config : options.configs) {
    std::string name = run_name(config);
    const auto same = std::count(names.begin(), names.end(), name);
    names.push_back(name);
    if (same > 0) name += cat("-", same + 1);
    plans.push_back(plan_config(options, config, name));
  }
  return plans;
}

// Everything that the runs depend on: a suite is continued only if this is unchanged.
std::string describe_plan(const SuiteOptions& options, const std::vector<PlannedConfig>& plans) {
  Json json = {{"program", cat("emblem ", kVersion, " ", checksum_of_file(options.program))},
               {"arguments", options.arguments},
               {"pipelines", Json::array()}};
  for (const PlannedConfig& plan : plans) {
    Json seeds = Json::array();
    for (const RunPlan& run : plan.runs) seeds.push_back(run.seed);
    json["pipelines"].push_back(
        {{"config", plan.config},
         {"checksum", checksum_of_file(plan.config)},
         {"set", plan.runs.empty() ? std::vector<std::string>{} : plan.runs[0].overrides},
         {"seeds", seeds}});
  }
  return json.dump(1) + "\n";
}

// A new folder, or one with an unfinished run of the same suite.
void prepare_folder(const std::string& out, const std::string& plan) {
  const fs::path folder = out;
  EMBLEM_REQUIRE(!fs::exists(folder / kResultFile), out,
                 " holds a finished suite; give another --out, or remove it");
  const std::string plan_file = (folder / kPlanFile).string();
  if (fs::exists(plan_file)) {
    EMBLEM_REQUIRE(read_text_file(plan_file) == plan, out,
                   " holds an unfinished suite of another program, other pipelines or other "
                   "options (",
                   plan_file, "); give another --out, or remove it");
  }
  for (const char* part : {"logs", "runs", "models"}) fs::create_directories(folder / part);
  write_text_file_atomically(plan_file, plan);
}

BenchResult to_result(const ConfigOutcome& outcome, const Machine& machine,
                      const std::string& date) {
  BenchResult result;
  result.benchmark = "suite";
  result.name = outcome.config;
  result.program = cat("emblem ", kVersion);
  result.machine = machine;
  result.date = date;
  std::vector<std::string> seeds, failures;
  double load = 0;
  for (const SuiteRun& run : outcome.runs) {
    seeds.push_back(cat(run.seed));
    if (run.failed()) failures.push_back(cat("seed ", run.seed, ": ", run.failure));
    load += run.other_load / static_cast<double>(outcome.runs.size());
  }
  result.settings = {{"verdict", std::string(to_text(outcome.verdict))},
                     {"runs", static_cast<int64_t>(outcome.runs.size())},
                     {"failed", outcome.failures()},
                     {"seeds", seeds},
                     {"other_load", load}};
  if (!outcome.reason.empty()) result.settings.push_back({"reason", outcome.reason});
  if (!failures.empty()) result.settings.push_back({"failures", failures});
  for (const MetricOutcome& metric : outcome.metrics) {
    if (metric.baseline) {
      result.settings.push_back({"baseline_" + metric.name, metric.baseline->value});
      result.settings.push_back({"margin_" + metric.name, metric.baseline->margin()});
    }
    if (!metric.measure.samples.empty()) result.metrics.push_back({metric.name, metric.measure});
  }
  return result;
}

}  // namespace

std::string suite_text(const std::vector<ConfigOutcome>& outcomes, Colour colour) {
  std::string text;
  for (const ConfigOutcome& outcome : outcomes) {
    text += cat(text.empty() ? "" : "\n", headline(outcome, colour));
    std::vector<std::vector<std::string>> rows = {
        {"  metric", "mean", "std dev", "95 % interval", "baseline", "verdict"}};
    for (const MetricOutcome& metric : outcome.metrics) rows.push_back(row_of(metric));
    if (rows.size() > 1) text += align_columns(rows);
    text += load_note(outcome) + failed_runs(outcome);
  }
  return text;
}

std::string suite_summary(const std::vector<ConfigOutcome>& outcomes) {
  std::map<std::string, int> counts;
  for (const ConfigOutcome& outcome : outcomes) ++counts[to_text(outcome.verdict)];
  std::string text = cat(outcomes.size(), outcomes.size() == 1 ? " pipeline: " : " pipelines: ");
  bool first = true;
  for (const auto& [verdict, count] : counts) {
    text += cat(first ? "" : ", ", count, " ", verdict);
    first = false;
  }
  return text;
}

std::string junit_xml(const std::vector<ConfigOutcome>& outcomes) {
  const auto count = [&](Verdict verdict) {
    return std::count_if(outcomes.begin(), outcomes.end(),
                         [&](const ConfigOutcome& outcome) { return outcome.verdict == verdict; });
  };
  double seconds = 0;
  std::string cases;
  for (const ConfigOutcome& outcome : outcomes) {
    seconds += seconds_of(outcome);
    cases += test_case(outcome);
  }
  return cat("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"emblem bench suite\"",
             " tests=\"", outcomes.size(), "\" failures=\"", count(Verdict::kWorse), "\" errors=\"",
             count(Verdict::kUnreliable), "\" skipped=\"", count(Verdict::kSkipped), "\" time=\"",
             seconds, "\">\n", cases, "</testsuite>\n");
}

std::vector<std::string> find_configs(const std::string& path) {
  EMBLEM_REQUIRE(fs::exists(path), path,
                 " does not exist; expected a pipeline or a folder of them");
  if (!fs::is_directory(path)) return {path};
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    if (entry.is_regular_file() && entry.path().extension() == ".config")
      found.push_back(entry.path().lexically_normal().generic_string());
  }
  EMBLEM_REQUIRE(!found.empty(), path, " has no *.config file");
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<ConfigOutcome> run_suite(const SuiteOptions& options,
                                     const std::function<void(const std::string&)>& announce) {
  const std::vector<PlannedConfig> plans = plan_suite(options);
  prepare_folder(options.out, describe_plan(options, plans));
  const Machine machine = this_machine();
  std::vector<ConfigOutcome> outcomes;
  for (const PlannedConfig& plan : plans) {
    if (!plan.skipped.empty()) {
      announce(cat(plan.config, ": skipped, ", plan.skipped));
      outcomes.push_back(
          {.config = plan.config, .verdict = Verdict::kSkipped, .reason = plan.skipped});
      continue;
    }
    std::vector<SuiteRun> runs;
    for (const RunPlan& run : plan.runs) {
      const std::string title = cat(plan.config, ", run ", runs.size() + 1, " of ",
                                    plan.runs.size(), ", seed ", run.seed);
      if (const auto done = read_run(run)) {
        announce(title + ": already finished");
        runs.push_back(*done);
        continue;
      }
      announce(title);
      runs.push_back(execute_run(run));
    }
    outcomes.push_back(judge(plan.config, std::move(runs), plan.baseline, machine));
  }
  return outcomes;
}

std::vector<BenchResult> suite_results(const std::vector<ConfigOutcome>& outcomes) {
  const Machine machine = this_machine();
  const std::string date = utc_now();
  std::vector<BenchResult> results;
  for (const ConfigOutcome& outcome : outcomes)
    results.push_back(to_result(outcome, machine, date));
  return results;
}

void finish_suite(const std::string& out, const std::vector<ConfigOutcome>& outcomes) {
  write_text_file_atomically(out + "/" + kJunitFile, junit_xml(outcomes));
  write_bench_results(out + "/" + kResultFile, suite_results(outcomes));
}

}  // namespace emblem
