#include "bench/loader/run.h"

#include <chrono>
#include <numeric>
#include <thread>

#include "core/file.h"
#include "core/page_cache.h"
#include "core/process.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

}  // namespace

std::vector<std::string> files_of(const LoaderSetting& setting) {
  return expand_paths(setting.loading.input);
}

LoaderRun run_loader(const LoaderSetting& setting, const FeatureLayout& layout,
                     const LoaderRunLimits& limits) {
  const std::vector<std::string> files = files_of(setting);
  const bool cold = setting.cache == CacheState::kCold;
  cold ? drop_page_cache(files) : fill_page_cache(files);
  LoaderRun run;
  run.cached_share = cached_share(files);
  reset_peak_resident_bytes();

  LoaderOptions options = setting.loading;
  options.epochs = cold ? 1 : 0;
  const auto made = Clock::now();
  const double cpu_when_made = cpu_seconds();
  Loader loader(setting.data, layout, options);
  Batch batch;
  EMBLEM_REQUIRE(loader.next(batch), "bench loader: no rows in ", options.input);
  run.first_batch_seconds = seconds_between(made, Clock::now());
  const auto start = cold ? made : Clock::now();
  const double cpu_before = cold ? cpu_when_made : cpu_seconds();
  const LoaderStatistics before = cold ? LoaderStatistics{} : loader.statistics();
  if (cold) {
    run.batch_seconds.push_back(run.first_batch_seconds);
    run.rows += batch.rows;
  }
  const auto step = std::chrono::duration<double>(limits.step_seconds);
  for (auto last = Clock::now(); seconds_between(start, last) < limits.seconds;) {
    if (limits.step_seconds > 0) std::this_thread::sleep_for(step);
    if (!loader.next(batch)) break;
    const auto now = Clock::now();
    run.batch_seconds.push_back(seconds_between(last, now));
    run.rows += batch.rows;
    last = now;
  }
  run.seconds = std::accumulate(run.batch_seconds.begin(), run.batch_seconds.end(), 0.0);
  const LoaderStatistics after = loader.statistics();
  run.cpu_seconds = cpu_seconds() - cpu_before;
  run.bytes = after.bytes - before.bytes;
  run.parse_seconds = after.parse_seconds - before.parse_seconds;
  run.producer_wait_seconds = after.idle_seconds - before.idle_seconds;
  run.consumer_wait_seconds = after.wait_seconds - before.wait_seconds;
  run.peak_memory_bytes = peak_resident_bytes();
  return run;
}

LoaderCheck check_loader(const LoaderSetting& setting, const FeatureLayout& layout, int64_t rows) {
  LoaderOptions options = setting.loading;
  options.batch_size = rows;
  options.workers = 1;
  options.shuffle = false;
  options.sample_ratio = 1;
  options.epochs = 1;
  options.max_batches = 1;
  Loader loader(setting.data, layout, options);
  Batch batch;
  EMBLEM_REQUIRE(loader.next(batch), "bench loader: no rows in ", options.input);
  LoaderCheck check;
  check.rows = batch.rows;
  check.labels = std::accumulate(batch.labels.begin(), batch.labels.end(), 0.0);
  check.dense = std::accumulate(batch.dense.begin(), batch.dense.end(), 0.0);
  for (const SparseColumn& column : batch.sparse)
    for (const int64_t key : column.keys) check.keys += static_cast<uint64_t>(key);
  return check;
}

}  // namespace emblem
