#include "bench/loader_bench.h"

#include <chrono>

#include "bench/ceilings.h"
#include "config/features.h"
#include "core/file.h"
#include "core/process.h"
#include "data/loader.h"
#include "emblem/error.h"
#include "emblem/version.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Brings the files into the page cache.
void touch_files(const std::string& input) {
  volatile char sink = 0;
  for (const std::string& path : expand_paths(input)) {
    const MappedFile file(path);
    for (size_t at = 0; at < file.bytes().size(); at += 4096) sink = file.bytes()[at];
  }
  (void)sink;
}

BenchResult measure(const config::PipelineConfig& config, const FeatureLayout& layout,
                    LoaderOptions options, double seconds) {
  options.epochs = 0;
  Loader loader(config.data_config(), layout, options);
  Batch batch;
  EMBLEM_REQUIRE(loader.next(batch), "bench loader: no rows in ", options.input);
  const auto start = Clock::now();
  const LoaderStatistics before = loader.statistics();
  const double cpu_before = cpu_seconds();
  int64_t batches = 0, rows = 0;
  while (seconds_since(start) < seconds && loader.next(batch)) {
    rows += batch.rows;
    ++batches;
  }
  const double elapsed = seconds_since(start);
  const LoaderStatistics after = loader.statistics();

  BenchResult result;
  result.benchmark = "loader";
  result.name = cat(config::DatasetType_Name(config.data_config().dataset_type()), "-w",
                    options.workers, "-b", options.batch_size);
  result.program = std::string("emblem ") + kVersion;
  result.machine = this_machine();
  result.date = utc_now();
  result.settings = {{"workers", int64_t{options.workers}},
                     {"batch", options.batch_size},
                     {"shuffle", options.shuffle},
                     {"prefetch_batches", int64_t{options.prefetch_batches}}};
  const double bytes = static_cast<double>(after.bytes - before.bytes);
  const double parse = after.parse_seconds - before.parse_seconds;
  result.metrics = {
      {"samples_per_second", {static_cast<double>(rows) / elapsed, "samples/s", Better::kHigher}},
      {"bytes_per_second", {bytes / elapsed, "B/s", Better::kHigher}},
      {"bytes_per_second_and_core", {bytes / std::max(1e-9, parse), "B/s", Better::kHigher}},
      {"cpu_share", {(cpu_seconds() - cpu_before) / elapsed, "cores", Better::kLower}},
      {"peak_memory", {static_cast<double>(peak_resident_bytes()), "B", Better::kLower}}};
  result.stages = {
      {"parse (all workers)", parse / static_cast<double>(batches)},
      {"wait", (after.wait_seconds - before.wait_seconds) / static_cast<double>(batches)}};
  return result;
}

}  // namespace

std::vector<BenchResult> bench_loader(const Context& context, const config::PipelineConfig& config,
                                      const LoaderBenchOptions& options) {
  const FeatureLayout layout = layout_of(config);
  LoaderOptions loading = training_loader_options(config);
  touch_files(loading.input);
  const double copy = measure_copy(context);
  std::vector<int64_t> batches = options.batches;
  if (batches.empty()) batches = {loading.batch_size};
  std::vector<BenchResult> results;
  for (const int64_t rows : batches) {
    for (const int workers : options.workers) {
      loading.batch_size = rows;
      loading.workers = workers;
      BenchResult result = measure(config, layout, loading, options.seconds);
      result.ceilings = {{"copy_bytes_per_second", copy}};
      result.shares = {{"input bytes at copy ceiling", result.metrics[1].second.value / copy}};
      results.push_back(std::move(result));
    }
  }
  return results;
}

}  // namespace emblem
