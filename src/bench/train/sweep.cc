#include "bench/train/sweep.h"

#include <algorithm>

#include "bench/result/result_table.h"
#include "bench/train/largest_batch.h"
#include "core/process.h"
#include "core/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

template <class T>
std::vector<T> or_default(const std::vector<T>& list) {
  return list.empty() ? std::vector<T>(1) : list;
}

bool threads_vary(const std::vector<TrainSetting>& settings) {
  return std::any_of(settings.begin(), settings.end(), [&](const TrainSetting& setting) {
    return setting.threads != settings.front().threads;
  });
}

void add_axes(const TrainSetting& setting, BenchResult& result) {
  const std::string placement =
      setting.device_bytes == 0
          ? "no cache"
          : "cache of " + format_bytes(static_cast<double>(setting.device_bytes));
  result.settings.insert(
      result.settings.begin(),
      {{"axes", std::vector<std::string>{"batch", "dim", "precision", "threads", "placement"}},
       {"placement", placement}});
}

std::string advice_text(const BenchResult& result, const TrainAdvice& advice) {
  const Setting* bound = find_named(result.settings, "bound_text");
  return cat("Use ", result.name, ": ", advice.reason, ".",
             bound == nullptr ? "" : cat(" ", format_setting(*bound)));
}

}  // namespace

std::string TrainSetting::text() const {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (batch > 0) add(cat("batch ", batch));
  if (dim > 0) add(cat("dim ", dim));
  if (!precision.empty()) add(precision);
  if (threads > 0) add(cat(threads, " threads"));
  if (device_bytes > 0) add("cache of " + format_bytes(static_cast<double>(device_bytes)));
  return text.empty() ? "as configured" : text;
}

std::vector<TrainSetting> train_settings(const TrainAxes& axes) {
  std::vector<TrainSetting> settings;
  for (const int64_t dim : or_default(axes.dims))
    for (const std::string& precision : or_default(axes.precisions))
      for (const int64_t bytes : or_default(axes.device_bytes))
        for (const int threads : or_default(axes.threads))
          for (const int64_t batch : or_default(axes.batches)) {
            EMBLEM_REQUIRE(batch >= 0 && dim >= 0, "a batch of ", batch, " rows of ", dim,
                           " floats cannot be trained; use sizes of at least 1");
            settings.push_back({batch, dim, precision, threads, bytes});
          }
  return settings;
}

TrainSweep sweep_training(const std::vector<TrainSetting>& settings,
                          const std::function<BenchResult(const TrainSetting&)>& measure) {
  TrainSweep sweep;
  const bool name_threads = threads_vary(settings);
  for (const TrainSetting& setting : settings) {
    reset_peak_resident_bytes();  // of the previous setting
    try {
      BenchResult result = measure(setting);
      if (name_threads) result.name += cat("-t", setting.threads);
      if (settings.size() > 1) add_axes(setting, result);
      sweep.results.push_back(std::move(result));
    } catch (...) {
      sweep.failed.push_back(cat(setting.text(), ": ", out_of_memory_line()));
    }
  }
  if (sweep.results.empty())
    throw Error(ErrorCode::kOutOfMemory, settings.size() == 1
                                             ? sweep.failed.front()
                                             : "no setting fits; " + sweep.failed.front());
  sweep.advice = advise_training(sweep.results);
  for (const TrainAdvice& advice : sweep.advice) {
    BenchResult& result = sweep.results[advice.recommended];
    if (advice.knee) result.settings.emplace_back("knee_batch", *advice.knee);
    result.settings.emplace_back("advice", advice_text(result, advice));
  }
  return sweep;
}

}  // namespace emblem
