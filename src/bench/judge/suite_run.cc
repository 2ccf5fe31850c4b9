#include "bench/judge/suite_run.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/files/file.h"
#include "core/system/process.h"
#include "core/system/subprocess.h"
#include "core/text/text.h"
#include "core/threads/thread_pool.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct RunFiles {
  std::string model, log, result, record;
};

RunFiles files_of(const RunPlan& plan) {
  return {plan.out + "/models/" + plan.name, plan.out + "/logs/" + plan.name + ".log",
          plan.out + "/runs/" + plan.name + ".result.json",
          plan.out + "/runs/" + plan.name + ".run.json"};
}

std::vector<std::string> command_of(const RunPlan& plan, const RunFiles& files) {
  std::vector<std::string> command = {plan.program,  "train",     "--config", plan.config,
                                      "--model-dir", files.model, "--json",   files.result};
  for (const std::string& override : plan.overrides) {
    command.push_back("--set");
    command.push_back(override);
  }
  command.push_back("--set");
  command.push_back(cat("train_config.seed=", plan.seed));
  command.insert(command.end(), plan.arguments.begin(), plan.arguments.end());
  return command;
}

// The last line of the log is the most likely reason.
std::string failure_of(const SubprocessResult& ended, const std::string& log) {
  std::string reason = to_text(ended);
  const std::vector<std::string> last = last_lines(log, 1);
  if (!last.empty()) reason += ": " + last[0];
  return reason;
}

Named<Measure> read_metrics(const std::string& path) {
  return read_bench_results(path).at(0).metrics;
}

void remember(const SuiteRun& run, const std::string& path) {
  const Json json = {{"seed", run.seed},
                     {"failure", run.failure},
                     {"seconds", run.seconds},
                     {"other_load", run.other_load}};
  write_text_file_atomically(path,
                             json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

// The share of CPU time since `busy_before` that other processes used.
double other_load(const SubprocessResult& ended, double busy_before) {
  const double busy = machine_busy_seconds() - busy_before;
  const double available = ended.seconds * available_cpus();
  return std::clamp((busy - ended.cpu_seconds) / std::max(1e-9, available), 0.0, 1.0);
}

}  // namespace

SuiteRun execute_run(const RunPlan& plan) {
  const RunFiles files = files_of(plan);
  fs::remove_all(files.model);
  fs::remove(files.result);
  SuiteRun run{.seed = plan.seed, .log = files.log};
  const double busy_before = machine_busy_seconds();
  const SubprocessResult ended = run_subprocess({.arguments = command_of(plan, files),
                                                 .environment = {},
                                                 .log = files.log,
                                                 .timeout_seconds = plan.timeout_seconds});
  if (ended.end == SubprocessEnd::kInterrupted) {
    throw Error(ErrorCode::kCancelled,
                cat("interrupted; continue with the same command and --out ", plan.out));
  }
  run.seconds = ended.seconds;
  run.other_load = other_load(ended, busy_before);
  if (!ended.succeeded())
    run.failure = failure_of(ended, files.log);
  else
    run.metrics = read_metrics(files.result);
  remember(run, files.record);
  if (!plan.keep_model) fs::remove_all(files.model);
  return run;
}

std::optional<SuiteRun> read_run(const RunPlan& plan) {
  const RunFiles files = files_of(plan);
  if (!fs::exists(files.record)) return std::nullopt;
  const Json json = Json::parse(read_text_file(files.record), nullptr, /*allow_exceptions=*/false);
  EMBLEM_REQUIRE(json.is_object() && json.contains("seconds") && json.contains("failure"),
                 files.record, " is damaged; remove it to repeat the run");
  SuiteRun run{.seed = plan.seed, .failure = json["failure"], .log = files.log};
  run.seconds = json["seconds"];
  run.other_load = json.value("other_load", 0.0);
  if (!run.failed()) run.metrics = read_metrics(files.result);
  return run;
}

std::vector<std::string> last_lines(const std::string& path, size_t count) {
  std::vector<std::string> lines;
  if (!fs::exists(path)) return lines;
  for (const std::string& line : split(read_text_file(path), '\n'))
    if (!trim(line).empty()) lines.push_back(line);
  if (lines.size() > count) lines.erase(lines.begin(), lines.end() - static_cast<long>(count));
  return lines;
}

}  // namespace emblem
