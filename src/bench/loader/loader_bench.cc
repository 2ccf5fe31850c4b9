#include "bench/loader/loader_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "bench/machine/ceilings.h"
#include "bench/result/result_table.h"
#include "bench/result/sample_statistics.h"
#include "core/system/seconds_since.h"
#include "core/text/text.h"
#include "emblem/error.h"
#include "model/lookup/feed.h"
#include "train/learner/learner.h"
#include "train/run/batch_stream.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTurns = 3;        // with and without the loader, each
constexpr size_t kResident = 8;  // different batches in memory
constexpr int kWarmUp = 3;       // steps

struct Stretch {
  double rows = 0, seconds = 0;
};

// Steps for `seconds` or longer, at least one.
void train_for(double seconds, Learner& learner, BatchStream& batches, Stretch& stretch) {
  const auto start = Clock::now();
  do {
    if (!batches.next()) break;
    learner.step(batches.batch(), 0, [&] { return std::vector{batches.look_ahead()}; });
    stretch.rows += static_cast<double>(batches.batch().rows);
  } while (seconds_since(start) < seconds);
  learner.context().synchronize();
  stretch.seconds += seconds_since(start);
}

double bytes_of(const Batch& batch) {
  size_t bytes = 4 * (batch.dense.size() + batch.labels.size() + batch.sample_weights.size());
  for (const SparseColumn& column : batch.sparse)
    bytes += 8 * column.keys.size() + 4 * (column.offsets.size() + column.weights.size());
  for (const SequenceColumn& sequence : batch.sequences)
    bytes += 4 * (sequence.offsets.size() + sequence.numbers.size());
  return static_cast<double>(bytes);
}

double measure_batch_copies(const Context& context, const std::vector<Batch>& batches) {
  Feed feed(context);
  double bytes = 0;
  const auto start = Clock::now();
  for (int turn = 0; turn < kTurns; ++turn)
    for (const Batch& batch : batches) {
      feed.set(batch);
      context.synchronize();
      bytes += bytes_of(batch);
    }
  return bytes / seconds_since(start);
}

constexpr int64_t kCheckedRows = 10000;

using Runs = std::vector<LoaderRun>;

std::vector<double> rates_of(const Runs& runs) {
  std::vector<double> rates;
  for (const LoaderRun& run : runs) rates.push_back(run.rate());
  return rates;
}

double median_rate(const Runs& runs) { return median_of(rates_of(runs)).value; }

// Half of the difference between the fastest and the slowest round.
double rate_spread(const Runs& runs) {
  const auto [low, high] = std::minmax_element(
      runs.begin(), runs.end(), [](auto& a, auto& b) { return a.rate() < b.rate(); });
  return (high->rate() - low->rate()) / 2;
}

template <class Value>
double sum(const Runs& runs, Value LoaderRun::*value) {
  return std::accumulate(runs.begin(), runs.end(), 0.0, [&](double total, const LoaderRun& run) {
    return total + static_cast<double>(run.*value);
  });
}

// Coefficient of variation.
double variation(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / n) / mean;
}

Named<Measure> metrics_of(const Runs& runs, int workers) {
  std::vector<double> batches;
  int64_t peak = 0;
  for (const LoaderRun& run : runs) {
    batches.insert(batches.end(), run.batch_seconds.begin(), run.batch_seconds.end());
    peak = std::max(peak, run.peak_memory_bytes);
  }
  const LatencySummary times = summarize(batches);
  const double seconds = sum(runs, &LoaderRun::seconds), bytes = sum(runs, &LoaderRun::bytes);
  const double waited = sum(runs, &LoaderRun::producer_wait_seconds);
  return {
      {"samples_per_second",
       {median_rate(runs), "samples/s", Better::kHigher, rate_spread(runs), {}, rates_of(runs)}},
      {"bytes_per_second", {bytes / seconds, "B/s", Better::kHigher}},
      {"bytes_per_second_and_core",
       {bytes / std::max(1e-9, sum(runs, &LoaderRun::parse_seconds)), "B/s", Better::kHigher}},
      {"batch_seconds_p50", {times.p50, "s", Better::kLower}},
      {"batch_seconds_p99", {times.p99, "s", Better::kLower}},
      {"batch_variation", {100 * variation(batches), "%", Better::kLower}},
      {"producer_wait", {100 * waited / (seconds * workers), "%", Better::kLower}},
      {"consumer_wait",
       {100 * sum(runs, &LoaderRun::consumer_wait_seconds) / seconds, "%", Better::kLower}},
      {"cpu_use", {sum(runs, &LoaderRun::cpu_seconds) / seconds, "cores", Better::kLower}},
      {"peak_memory", {static_cast<double>(peak), "B", Better::kLower}},
      {"first_batch_seconds",
       {sum(runs, &LoaderRun::first_batch_seconds) / static_cast<double>(runs.size()), "s",
        Better::kLower}}};
}

Named<Setting> settings_of(const LoaderSetting& setting, const Runs& runs,
                           const LoaderBenchOptions& options, const LoaderCheck& check) {
  const std::vector<std::string> files = files_of(setting);
  const LoaderOptions& loading = setting.loading;
  std::vector<std::string> axes{"input",   "batch",        "workers",   "prefetch_batches",
                                "shuffle", "sample_ratio", "page_cache"};
  if (setting.is_remote()) axes.insert(axes.end(), {"connections", "part_bytes"});
  Named<Setting> settings{
      {"axes", axes},
      {"input", setting.label},
      {"path", loading.input},
      {"format", setting.format},
      {"files", static_cast<int64_t>(files.size())},
      {"bytes", bytes_of_files(setting)},
      {"workers", int64_t{loading.workers}},
      {"batch", loading.batch_size},
      {"prefetch_batches", int64_t{loading.prefetch_batches}},
      {"shuffle", loading.shuffle},
      {"sample_ratio", loading.sample_ratio},
      {"page_cache", std::string(setting.cache == CacheState::kCold ? "cold" : "warm")},
      {"cached_percent_before",
       100 * sum(runs, &LoaderRun::cached_share) / static_cast<double>(runs.size())},
      {"rounds", int64_t{options.rounds}},
      {"seconds_a_round", options.limits.seconds},
      {"step_seconds", options.limits.step_seconds},
      {"check_rows", check.rows},
      {"check_labels", check.labels},
      {"check_dense", check.dense},
      {"check_keys", std::to_string(check.keys)}};
  if (setting.is_remote()) {
    settings.emplace_back("connections", int64_t{setting.data.download_threads()});
    settings.emplace_back("part_bytes", static_cast<int64_t>(setting.data.part_bytes()));
  }
  return settings;
}

// What the network did.
void add_remote(const LoaderSetting& setting, const Runs& runs, double plain_bytes_per_second,
                BenchResult& result) {
  double bytes = 0, requests = 0, retries = 0, cached = 0, opened = 0, waited = 0, seconds = 0;
  for (const LoaderRun& run : runs) {
    bytes += static_cast<double>(run.remote.downloaded_bytes);
    requests += static_cast<double>(run.remote.requests);
    retries += static_cast<double>(run.remote.retries);
    cached += static_cast<double>(run.remote.cached_bytes);
    opened += static_cast<double>(run.remote.bytes);
    waited += run.remote.wait_seconds;
    seconds += run.seconds;
  }
  const auto count = static_cast<double>(runs.size());
  result.metrics.push_back({"network_bytes_per_second", {bytes / seconds, "B/s", Better::kHigher}});
  result.metrics.push_back({"requests", {requests / count, "", Better::kLower}});
  result.metrics.push_back({"retries", {retries / count, "", Better::kLower}});
  result.metrics.push_back(
      {"cache_hits", {opened > 0 ? 100 * cached / opened : 0, "%", Better::kHigher}});
  result.metrics.push_back(
      {"network_wait", {100 * waited / (seconds * setting.loading.workers), "%", Better::kLower}});
  if (setting.cache != CacheState::kCold || plain_bytes_per_second <= 0) return;
  result.ceilings.emplace_back("plain_download_bytes_per_second", plain_bytes_per_second);
  result.shares.emplace_back("download at plain ranges", bytes / seconds / plain_bytes_per_second);
}

BenchResult make_result(const LoaderSetting& setting, const Runs& runs,
                        const LoaderBenchOptions& options, const LoaderCheck& check,
                        double copy_bytes_per_second, double plain_bytes_per_second) {
  BenchResult result = begin_result("loader", setting.name());
  result.settings = settings_of(setting, runs, options, check);
  result.metrics = metrics_of(runs, setting.loading.workers);
  double batches = 0;
  for (const LoaderRun& run : runs) batches += static_cast<double>(run.batch_seconds.size());
  result.stages = {{"workers parse", sum(runs, &LoaderRun::parse_seconds) / batches},
                   {"workers wait", sum(runs, &LoaderRun::producer_wait_seconds) / batches}};
  result.ceilings = {{"copy_bytes_per_second", copy_bytes_per_second}};
  result.shares = {{"input bytes at copy ceiling",
                    find_named(result.metrics, "bytes_per_second")->value / copy_bytes_per_second}};
  if (setting.is_remote()) add_remote(setting, runs, plain_bytes_per_second, result);
  return result;
}

std::string reason_of(const LoaderAdvice& advice, const std::vector<LoaderSetting>& settings,
                      const std::vector<BenchResult>& results) {
  const auto rate = [&](size_t i) {
    return format_metric(results[i].metrics.front().second.value, "samples/s");
  };
  if (advice.compared == 1) return "the only setting measured: " + rate(advice.best);
  if (advice.recommended == advice.best)
    return fmt::format("{}, the best of {} settings; no smaller one is within 3 %",
                       rate(advice.best), advice.compared);
  return fmt::format(
      "{}, the smallest of {} settings within 3 % of the best: {:.0f} % of {} ({}), measured "
      "alternately",
      rate(advice.recommended), advice.compared, 100 * advice.share, settings[advice.best].name(),
      rate(advice.best));
}

// Advice for remote inputs of many small objects; "" for others.
std::string bundling_advice(const LoaderSetting& setting) {
  constexpr int64_t kSmall = 1 << 20;
  if (!setting.is_remote()) return "";
  const auto files = static_cast<int64_t>(files_of(setting).size());
  const int64_t mean = bytes_of_files(setting) / files;
  if (files < 10 || mean >= kSmall) return "";
  return fmt::format(
      "; its {} objects have {} on average: bundle them by emblem convert --bundle-gb 0.25", files,
      format_bytes(static_cast<double>(mean)));
}

void add_training(const LoadedTraining& training, BenchResult& result) {
  result.metrics.push_back(
      {"training_samples_per_second", {training.loaded_rate, "samples/s", Better::kHigher}});
  result.metrics.push_back(
      {"resident_samples_per_second", {training.resident_rate, "samples/s", Better::kHigher}});
  result.metrics.push_back(
      {"device_idle_while_training", {100 * training.idle_share(), "%", Better::kLower}});
  if (training.copy_bytes_per_second > 0)
    result.metrics.push_back({"copy_to_device_bytes_per_second",
                              {training.copy_bytes_per_second, "B/s", Better::kHigher}});
}

// The sums over the first rows, computed once per input.
std::vector<LoaderCheck> checks_of(const std::vector<LoaderSetting>& settings,
                                   const FeatureLayout& layout) {
  std::vector<LoaderCheck> checks;
  for (size_t i = 0; i < settings.size(); ++i) {
    const bool known = i > 0 && settings[i].loading.input == settings[i - 1].loading.input;
    checks.push_back(known ? checks.back() : check_loader(settings[i], layout, kCheckedRows));
  }
  return checks;
}

// The rate of plain downloads, measured once per remote input; 0 for others.
std::vector<double> plain_downloads(const std::vector<LoaderSetting>& settings, double seconds) {
  std::vector<double> rates;
  for (size_t i = 0; i < settings.size(); ++i) {
    const bool known = i > 0 && settings[i].loading.input == settings[i - 1].loading.input;
    const bool is_remote = settings[i].is_remote();
    rates.push_back(known       ? rates.back()
                    : is_remote ? measure_plain_download(settings[i], seconds)
                                : 0);
  }
  return rates;
}

}  // namespace

double LoadedTraining::idle_share() const {
  return resident_rate > 0 ? std::max(0.0, 1 - loaded_rate / resident_rate) : 0;
}

LoadedTraining train_with_loader(const Context& context, const config::PipelineConfig& config,
                                 const FeatureLayout& layout, const LoaderSetting& setting,
                                 double seconds) {
  LoaderOptions options = setting.loading;
  options.epochs = 0;
  const auto memory = batch_memory(context);
  options.memory = memory.get();
  Learner learner(context, config, layout, options.batch_size);
  std::vector<Batch> resident(kResident);
  {
    Loader loader(setting.data, layout, options);
    for (Batch& batch : resident)
      EMBLEM_REQUIRE(loader.next(batch), "bench loader: no rows in ", options.input);
  }
  size_t at = 0;
  BatchStream from_memory(context, [&] { return &resident[at++ % resident.size()]; });
  Stretch warm_up;
  for (int step = 0; step < kWarmUp; ++step) train_for(0, learner, from_memory, warm_up);

  LoadedTraining found;
  if (context.device != Device::kCpu)
    found.copy_bytes_per_second = measure_batch_copies(context, resident);
  const double stretch = seconds / (2 * kTurns);
  Stretch with, without;
  for (int turn = 0; turn < kTurns; ++turn) {
    train_for(stretch, learner, from_memory, without);
    // Destroyed after its turn, so that it takes no CPU time from the other.
    Loader loader(setting.data, layout, options);
    BatchStream from_files(context, batches_of(loader));
    Stretch first;
    train_for(0, learner, from_files, first);
    train_for(stretch, learner, from_files, with);
  }
  found.loaded_rate = with.rows / with.seconds;
  found.resident_rate = without.rows / without.seconds;
  return found;
}

LoaderBench bench_loader(const Context& context, const config::PipelineConfig& config,
                         const LoaderBenchOptions& options,
                         const std::function<void(const std::string&)>& progress) {
  const FeatureLayout layout = layout_of(config);
  LoaderBench bench;
  bench.settings = loader_settings(config, options.axes);
  const std::vector<LoaderSetting>& settings = bench.settings;
  const std::vector<LoaderCheck> checks = checks_of(settings, layout);
  const double copy = measure_copy(context);

  std::vector<Runs> runs(settings.size());
  for (int round = 0; round < options.rounds; ++round) {
    for (size_t i = 0; i < settings.size(); ++i) {
      if (progress)
        progress(cat("round ", round + 1, " of ", options.rounds, ", ", i + 1, " of ",
                     settings.size(), ": ", settings[i].name()));
      runs[i].push_back(run_loader(settings[i], layout, options.limits));
    }
  }
  const std::vector<double> plain = plain_downloads(settings, options.limits.seconds);
  std::vector<double> rates;
  for (size_t i = 0; i < settings.size(); ++i) {
    bench.results.push_back(make_result(settings[i], runs[i], options, checks[i], copy, plain[i]));
    rates.push_back(median_rate(runs[i]));
  }

  bench.advice = advise(settings, rates, [&](size_t a, size_t b) {
    std::vector<double> ratios;
    for (int round = 0; round < options.rounds; ++round) {
      if (progress) progress(cat("comparing ", settings[a].name(), " and ", settings[b].name()));
      const double first = run_loader(settings[a], layout, options.limits).rate();
      ratios.push_back(first / run_loader(settings[b], layout, options.limits).rate());
    }
    return median_of(std::move(ratios)).value;
  });
  bench.reason = reason_of(bench.advice, settings, bench.results);
  const size_t chosen = bench.advice.recommended;
  bench.reason += bundling_advice(settings[chosen]);
  bench.fragment = config_fragment(settings[chosen], cat("emblem bench loader: ", bench.reason));
  bench.results[chosen].settings.emplace_back(
      "advice", cat("Use ", settings[chosen].name(), ": ", bench.reason, "."));
  if (options.training_seconds > 0) {
    if (progress) progress("training with " + settings[chosen].name());
    add_training(
        train_with_loader(context, config, layout, settings[chosen], options.training_seconds),
        bench.results[chosen]);
  }
  return bench;
}

}  // namespace emblem
