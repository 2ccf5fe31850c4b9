#include "bench/judge/against.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "bench/judge/suite_run.h"
#include "bench/machine/ceilings.h"
#include "bench/result/result_table.h"
#include "core/system/subprocess.h"
#include "emblem/api.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

// A temporary folder for the files of runs.
class ScratchFolder {
 public:
  ScratchFolder() : path_((fs::temp_directory_path() / cat("emblem-against-", getpid())).string()) {
    fs::create_directories(path_);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::vector<BenchResult> run_once(const std::string& program,
                                  const std::vector<std::string>& arguments,
                                  const std::string& scratch) {
  const std::string json = scratch + "/result.json", log = scratch + "/log";
  fs::remove(json);
  std::vector<std::string> command = {program};
  command.insert(command.end(), arguments.begin(), arguments.end());
  command.insert(command.end(), {"--json", json});
  const SubprocessResult ended =
      run_subprocess({.arguments = command, .environment = {{kBriefCeilings, "1"}}, .log = log});
  if (ended.end == SubprocessEnd::kInterrupted) throw Error(ErrorCode::kCancelled, "interrupted");
  if (!ended.succeeded()) {
    std::string why;
    for (const std::string& line : last_lines(log, 3)) why += " | " + line;
    throw Error(ErrorCode::kUnavailable,
                cat("--against: ", program, " failed with ", to_text(ended), why));
  }
  EMBLEM_REQUIRE(fs::exists(json), "--against: ", program,
                 " wrote no results; --against needs a benchmark that writes --json");
  return read_bench_results(json);
}

using Runs = std::vector<std::vector<BenchResult>>;  // [run][result]

// The metric of every run; runs without it, or where it is not positive, are skipped.
std::vector<double> values_of(const Runs& runs, const BenchResult& like,
                              const std::string& metric) {
  std::vector<double> values;
  for (const auto& results : runs) {
    for (const BenchResult& result : results) {
      if (result.benchmark != like.benchmark || result.name != like.name) continue;
      const Measure* found = find_named(result.metrics, metric);
      if (found != nullptr && std::isfinite(found->value) && found->value > 0)
        values.push_back(found->value);
      break;
    }
  }
  return values;
}

Measure summary_of(const Measure& like, std::vector<double> samples) {
  Measure measure{mean_of(samples), like.unit, like.better, standard_deviation_of(samples)};
  measure.interval = mean_interval(samples);
  measure.samples = std::move(samples);
  return measure;
}

Ratio ratio_of(const BenchResult& like, const std::string& metric, const Measure& measure,
               std::vector<double> ours, std::vector<double> theirs) {
  const double sign = measure.better == Better::kHigher ? 1 : -1;
  std::vector<double> logarithms;
  for (size_t i = 0; i < ours.size(); ++i)
    logarithms.push_back(sign * (std::log(ours[i]) - std::log(theirs[i])));
  const Median median = median_of(logarithms);
  Ratio ratio{.benchmark = like.benchmark, .name = like.name, .metric = metric};
  ratio.times_better = std::exp(median.value);
  ratio.interval = {std::exp(median.interval.low), std::exp(median.interval.high)};
  for (const double logarithm : logarithms) ratio.of_each_pair.push_back(std::exp(logarithm));
  ratio.program = summary_of(measure, std::move(ours));
  ratio.other = summary_of(measure, std::move(theirs));
  return ratio;
}

std::vector<Ratio> ratios_of(const Runs& ours, const Runs& theirs) {
  std::vector<Ratio> ratios;
  for (const BenchResult& like : ours.at(0)) {
    for (const auto& [metric, measure] : like.metrics) {
      std::vector<double> left = values_of(ours, like, metric);
      std::vector<double> right = values_of(theirs, like, metric);
      if (left.size() == ours.size() && right.size() == theirs.size())
        ratios.push_back(ratio_of(like, metric, measure, std::move(left), std::move(right)));
    }
  }
  EMBLEM_REQUIRE(!ratios.empty(), "--against: the programs have no positive metric in common");
  return ratios;
}

BenchResult new_result(const Ratio& ratio, const std::string& benchmark, const std::string& name,
                       const std::string& program, const AgainstOptions& options) {
  BenchResult result;
  result.benchmark = benchmark;
  result.name = name;
  result.program = program;
  result.machine = this_machine();
  result.date = utc_now();
  result.settings = {{"pairs", static_cast<int64_t>(ratio.of_each_pair.size())},
                     {"program", options.program},
                     {"against", options.other}};
  return result;
}

}  // namespace

int64_t runs_of(const AgainstOptions& options) { return 2 * (options.pairs + 1); }

std::vector<Ratio> run_against(const AgainstOptions& options,
                               const std::function<void(int64_t)>& progress) {
  EMBLEM_REQUIRE(options.pairs >= 6, "--pairs is ", options.pairs,
                 "; a 95 % interval needs at least 6");
  const ScratchFolder scratch;
  int64_t done = 0;
  const auto run = [&](const std::string& program) {
    auto results = run_once(program, options.arguments, scratch.path());
    progress(++done);
    return results;
  };
  run(options.program);
  run(options.other);
  Runs ours, theirs;
  for (int64_t pair = 0; pair < options.pairs; ++pair) {
    if (pair % 2 == 0) {
      ours.push_back(run(options.program));
      theirs.push_back(run(options.other));
    } else {
      theirs.push_back(run(options.other));
      ours.push_back(run(options.program));
    }
  }
  return ratios_of(ours, theirs);
}

std::string to_text(const std::vector<Ratio>& ratios) {
  std::vector<std::vector<std::string>> rows = {
      {"metric", "this", "other", "times better", "95 % interval", "verdict"}};
  std::string before;
  for (const Ratio& ratio : ratios) {
    const std::string of = ratio.benchmark + " " + ratio.name;
    if (of != before) rows.push_back({before = of});
    rows.push_back({"  " + ratio.metric, format_metric(ratio.program.value, ratio.program.unit),
                    format_metric(ratio.other.value, ratio.other.unit),
                    fmt::format("{:.4f}", ratio.times_better),
                    fmt::format("{:.4f} to {:.4f}", ratio.interval.low, ratio.interval.high),
                    ratio.better()  ? "better"
                    : ratio.worse() ? "WORSE"
                                    : "not significant"});
  }
  return align_columns(rows);
}

std::vector<BenchResult> to_results(const std::vector<Ratio>& ratios,
                                    const AgainstOptions& options) {
  std::vector<BenchResult> results;
  const std::string ours = cat("emblem ", kVersion), theirs = "other " + options.other;
  for (const Ratio& ratio : ratios) {
    const std::string name = ratio.benchmark + " " + ratio.name;
    if (results.empty() || results.back().name != name) {
      results.push_back(new_result(ratio, ratio.benchmark, ratio.name, ours, options));
      results.push_back(new_result(ratio, ratio.benchmark, ratio.name, theirs, options));
      results.push_back(new_result(ratio, "against", name, ours, options));
    }
    const size_t last = results.size() - 1;
    results[last - 2].metrics.push_back({ratio.metric, ratio.program});
    results[last - 1].metrics.push_back({ratio.metric, ratio.other});
    Measure times{ratio.times_better, "x", Better::kHigher};
    times.interval = ratio.interval;
    times.samples = ratio.of_each_pair;
    results[last].metrics.push_back({ratio.metric, times});
  }
  return results;
}

}  // namespace emblem
