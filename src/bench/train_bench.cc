#include "bench/train_bench.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include "bench/ceilings.h"
#include "config/features.h"
#include "config/load.h"
#include "core/process.h"
#include "core/progress.h"
#include "core/thread_pool.h"
#include "data/loader.h"
#include "emblem/version.h"
#include "train/feed.h"
#include "train/learner.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Training costs three products where inference costs one: the forward one, and one for each
// gradient.
constexpr double kTrainingFlops = 3.0;

struct Measured {
  std::vector<double> step_seconds;
  StageSeconds stages;
  double load_seconds = 0.0, total_seconds = 0.0, cpu_seconds = 0.0;
  double first_loss = 0.0, last_loss = 0.0;
  int64_t rows = 0;
};

// Steps until both floors, of steps and of time, are reached or `next` has no more batches.
Measured measure(Learner& learner, const TrainBenchOptions& options, const std::string& name,
                 const std::function<const Batch*()>& next) {
  Feed feed(learner.context());
  Measured found;
  Progress progress(name, 0);
  for (int64_t i = 0; i < options.warmup; ++i) {
    const Batch* batch = next();
    if (batch == nullptr) break;
    const double loss = learner.step(feed.set(*batch), 0).loss;
    if (i == 0) found.first_loss = loss;
  }
  learner.model().stages() = {};
  const double cpu_before = cpu_seconds();
  const auto start = Clock::now();
  while (static_cast<int64_t>(found.step_seconds.size()) < options.steps ||
         seconds_since(start) < options.seconds) {
    const auto before = Clock::now();
    const Batch* batch = next();
    if (batch == nullptr) break;
    const double load = seconds_since(before);
    found.last_loss = learner.step(feed.set(*batch), 0).loss;
    found.load_seconds += load;
    found.step_seconds.push_back(seconds_since(before));
    found.rows += batch->rows;
    progress.update(found.rows);
  }
  learner.context().synchronize();
  found.total_seconds = seconds_since(start);
  found.cpu_seconds = cpu_seconds() - cpu_before;
  found.stages = learner.model().stages();
  EMBLEM_REQUIRE(!found.step_seconds.empty(),
                 "bench train: the data ended before the first timed step; use more rows or fewer "
                 "--warmup steps");
  return found;
}

// The range of the middle half of the steps over their median: what a neighbour on the machine does
// to them.
double spread(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const size_t n = seconds.size();
  return (seconds[3 * n / 4] - seconds[n / 4]) / seconds[n / 2];
}

double percentile(std::vector<double> seconds, double share) {
  std::sort(seconds.begin(), seconds.end());
  return seconds[std::min(seconds.size() - 1,
                          static_cast<size_t>(share * static_cast<double>(seconds.size())))];
}

// Where the time goes, and its share of the machine's limits.
void add_stages(const Context& context, Learner& learner, const Measured& found, int64_t width,
                BenchResult& result) {
  const auto steps = static_cast<double>(found.step_seconds.size());
  const double staged = found.load_seconds + found.stages.lookup + found.stages.forward +
                        found.stages.backward + found.stages.update;
  result.stages = {{"load", found.load_seconds / steps},
                   {"lookup", found.stages.lookup / steps},
                   {"dense forward", found.stages.forward / steps},
                   {"dense backward", found.stages.backward / steps},
                   {"update", found.stages.update / steps},
                   {"other", std::max(0.0, found.total_seconds - staged) / steps}};

  const Ceilings ceilings = measure_ceilings(context, std::max<int64_t>(width, 4));
  result.ceilings = {{"copy_bytes_per_second", ceilings.copy_bytes_per_second},
                     {"gather_bytes_per_second", ceilings.gather_bytes_per_second},
                     {"gemm_flops_per_second", ceilings.gemm_flops_per_second}};
  const double flops =
      kTrainingFlops * learner.model().graph().flops_per_row() * static_cast<double>(found.rows);
  const double dense_seconds = found.stages.forward + found.stages.backward;
  // What the step would take if products ran at their ceiling and nothing else took time.
  result.shares = {
      {"dense at gemm ceiling", flops / ceilings.gemm_flops_per_second / dense_seconds},
      {"step at gemm ceiling", flops / ceilings.gemm_flops_per_second / found.total_seconds}};
}

BenchResult make_result(const Context& context, const std::string& name, Learner& learner,
                        const Measured& found, int64_t width) {
  const auto steps = static_cast<double>(found.step_seconds.size());
  const double rate = static_cast<double>(found.rows) / found.total_seconds;
  BenchResult result;
  result.benchmark = "train";
  result.name = name;
  result.program = std::string("emblem ") + kVersion;
  result.machine = this_machine();
  result.date = utc_now();
  result.settings = {{"threads", int64_t{context.threads ? context.threads->threads() : 1}},
                     {"steps", static_cast<int64_t>(found.step_seconds.size())},
                     {"first_loss", found.first_loss},
                     {"last_loss", found.last_loss},
                     {"references", std::vector<std::string>{"dlrm-throughput"}}};
  result.metrics = {
      {"samples_per_second",
       {rate, "samples/s", Better::kHigher, rate * spread(found.step_seconds)}},
      {"step_seconds", {found.total_seconds / steps, "s", Better::kLower}},
      // What other processes do only adds time: the quickest steps are the least disturbed.
      {"step_seconds_p10", {percentile(found.step_seconds, 0.1), "s", Better::kLower}},
      {"step_seconds_p50", {percentile(found.step_seconds, 0.5), "s", Better::kLower}},
      {"step_seconds_p99", {percentile(found.step_seconds, 0.99), "s", Better::kLower}},
      {"cpu_seconds_per_step", {found.cpu_seconds / steps, "s", Better::kLower}},
      {"peak_memory", {static_cast<double>(peak_resident_bytes()), "B", Better::kLower}}};
  if (context.device == Device::kCpu) {
    add_stages(context, learner, found, width, result);
  } else {  // which works beside this thread, whose clock says nothing about stages
    result.stages = {{"load", found.load_seconds / steps},
                     {"step", (found.total_seconds - found.load_seconds) / steps}};
  }
  return result;
}

}  // namespace

std::vector<BenchResult> bench_kaggle(const Context& context, const TrainBenchOptions& options) {
  std::vector<BenchResult> results;
  for (const int64_t dim : options.dims) {
    for (const int64_t rows : options.batches) {
      std::string name = cat("dlrm-kaggle-d", dim, "-b", rows);
      if (options.tables == BenchTables::kDynamic) name += "-dynamic";
      const DlrmShape shape = kaggle_dlrm(dim);
      const auto config = parse_pipeline(dlrm_pipeline(shape, rows, options.tables),
                                         "preset dlrm-kaggle", options.overrides);
      const FeatureLayout layout = layout_of(config);
      const auto batches =
          dlrm_batches(shape, options.distinct_batches, rows, options.alpha, options.seed);
      Learner learner(context, config, layout, rows);
      size_t next = 0;
      const Measured found =
          measure(learner, options, name, [&] { return &batches[next++ % batches.size()]; });
      BenchResult result = make_result(context, name, learner, found, dim);
      result.settings.insert(result.settings.begin(), {{"batch", rows},
                                                       {"dim", dim},
                                                       {"alpha", options.alpha},
                                                       {"optimizer", std::string("sgd")}});
      results.push_back(std::move(result));
    }
  }
  return results;
}

BenchResult bench_pipeline(const Context& context, const config::PipelineConfig& config,
                           const TrainBenchOptions& options) {
  const FeatureLayout layout = layout_of(config);
  LoaderOptions loading = training_loader_options(config);
  loading.epochs = 0;
  Learner learner(context, config, layout, loading.batch_size);
  Loader loader(config.data_config(), layout, loading);
  Batch batch;
  const Measured found = measure(learner, options, "benchmarking", [&]() -> const Batch* {
    return loader.next(batch) ? &batch : nullptr;
  });
  int64_t width = 0;
  for (const Table* table : learner.model().tables()) width = std::max(width, table->dim());
  BenchResult result =
      make_result(context, learner.model().name() + "-pipeline", learner, found, width);
  result.settings.insert(result.settings.begin(),
                         {{"batch", loading.batch_size}, {"workers", int64_t{loading.workers}}});
  return result;
}

}  // namespace emblem
