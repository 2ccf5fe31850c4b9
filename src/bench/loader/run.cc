#include "bench/loader/run.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <numeric>
#include <thread>

#include "core/files/page_cache.h"
#include "core/system/process.h"
#include "core/text/text.h"
#include "core/threads/start_threads.h"
#include "data/format/input_file.h"
#include "data/source/remote_storage.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

constexpr int kMostConnections = 64;

// A storage with the settings of a remote input, and a cache folder of its own that may be
// emptied. Null for other inputs.
Storage storage_of(const LoaderSetting& setting) {
  if (!setting.is_remote()) return nullptr;
  RemoteOptions options = remote_options(setting.data);
  options.cache_dir = cache_folder(options.cache_dir) + "/bench";
  return std::make_shared<RemoteStorage>(options);
}

// Reads all objects once, so that they are in the cache.
void fill_object_cache(const std::vector<std::string>& files, const Storage& storage) {
  for (const std::string& file : files) {
    const InputFile input(file, storage);
    input.prefetch(0, input.bytes());
    std::vector<char> piece(size_t{1} << 20);
    for (int64_t at = 0; at < input.bytes(); at += std::ssize(piece))
      input.read(at, std::min<int64_t>(std::ssize(piece), input.bytes() - at), piece.data());
  }
}

void prepare_caches(const LoaderSetting& setting, const std::vector<std::string>& files,
                    const Storage& storage, LoaderRun& run) {
  const bool cold = setting.cache == CacheState::kCold;
  if (!setting.is_remote()) {
    cold ? drop_page_cache(files) : fill_page_cache(files);
    run.cached_share = cached_share(files);
    return;
  }
  if (cold)
    storage->cache().clear();
  else
    fill_object_cache(files, storage);
  run.cached_share = cold ? 0 : 1;
}

}  // namespace

std::vector<std::string> files_of(const LoaderSetting& setting) {
  return expand_inputs(setting.loading.input, storage_of(setting));
}

int64_t bytes_of_files(const LoaderSetting& setting) {
  int64_t bytes = 0;
  const Storage storage = storage_of(setting);
  for (const std::string& file : files_of(setting))
    bytes += is_object_uri(file) ? storage->find(file)->bytes
                                 : static_cast<int64_t>(std::filesystem::file_size(file));
  return bytes;
}

double measure_plain_download(const LoaderSetting& setting, double seconds) {
  const Storage storage = storage_of(setting);
  std::vector<ObjectInfo> objects;
  for (const std::string& item : split(setting.loading.input, ','))
    for (const ObjectInfo& object : storage->expand(std::string(trim(item))))
      objects.push_back(object);
  const int64_t part = std::max<int64_t>(storage->options().part_bytes, 1);
  std::atomic<size_t> next{0};
  std::atomic<int64_t> bytes{0};
  const auto start = Clock::now();
  const auto fetch = [&] {
    for (size_t i = next++; i < objects.size() && seconds_between(start, Clock::now()) < seconds;
         i = next++)
      for (int64_t at = 0; at < objects[i].bytes; at += part)
        bytes += static_cast<int64_t>(
            storage->read_range(objects[i], at, std::min(part, objects[i].bytes - at)).size());
  };
  std::vector<std::thread> threads;
  start_threads(threads, kMostConnections, "64 connections", "run it on a larger machine", fetch,
                [&] { next = objects.size(); });
  for (std::thread& thread : threads) thread.join();
  return static_cast<double>(bytes) / seconds_between(start, Clock::now());
}

LoaderRun run_loader(const LoaderSetting& setting, const FeatureLayout& layout,
                     const LoaderRunLimits& limits) {
  const bool cold = setting.cache == CacheState::kCold;
  LoaderRun run;
  const Storage storage = storage_of(setting);
  prepare_caches(setting, files_of(setting), storage, run);
  reset_peak_resident_bytes();

  LoaderOptions options = setting.loading;
  options.storage = storage;
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
  run.remote = after.remote - before.remote;
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
