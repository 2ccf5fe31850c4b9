#include "bench/train/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <tuple>

#include "bench/loader/advice.h"
#include "bench/result/result_table.h"
#include "config/load/load.h"
#include "core/system/process.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr int64_t kResolution = 32;

int64_t whole(const BenchResult& result, const char* setting) {
  const Setting* found = find_named(result.settings, setting);
  const auto* value = found == nullptr ? nullptr : std::get_if<int64_t>(found);
  return value == nullptr ? 0 : *value;
}

std::string precision_of(const BenchResult& result) {
  const Setting* found = find_named(result.settings, "precision");
  return found == nullptr ? "fp32" : format_setting(*found);
}

double rate_of(const BenchResult& result) {
  const Measure* rate = find_named(result.metrics, "samples_per_second");
  return rate == nullptr ? 0 : rate->value;
}

// The settings that all batch sizes of a curve share, in order of preference. Rows entirely in
// device memory (a cache of 0 bytes) use the most of it.
using Combination = std::tuple<int64_t, bool, std::string, uint64_t>;
Combination combination_of(const BenchResult& result) {
  const std::string precision = precision_of(result);
  return {whole(result, "threads"), precision != "fp32", precision,
          static_cast<uint64_t>(whole(result, "device_bytes")) - 1};
}

struct Curve {
  Combination combination;
  std::vector<size_t> members;  // indices into the list of results
  std::optional<int64_t> knee;
  size_t chosen = 0;
};

std::vector<Curve> curves_of(const std::vector<BenchResult>& results, int64_t dim) {
  std::vector<Curve> curves;
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].benchmark != "train" || whole(results[i], "dim") != dim ||
        !(rate_of(results[i]) > 0))
      continue;
    const Combination combination = combination_of(results[i]);
    auto at = std::find_if(curves.begin(), curves.end(),
                           [&](const Curve& curve) { return curve.combination == combination; });
    if (at == curves.end()) at = curves.insert(curves.end(), Curve{combination, {}, {}, 0});
    at->members.push_back(i);
  }
  for (Curve& curve : curves) {
    std::vector<BatchRate> rates;
    for (const size_t i : curve.members)
      rates.push_back({whole(results[i], "batch"), rate_of(results[i])});
    curve.knee = find_knee(rates);
    curve.chosen =
        *std::max_element(curve.members.begin(), curve.members.end(), [&](size_t a, size_t b) {
          return whole(results[a], "batch") < whole(results[b], "batch");
        });
    for (const size_t i : curve.members)
      if (curve.knee && whole(results[i], "batch") == *curve.knee) curve.chosen = i;
  }
  return curves;
}

std::string reason_of(const std::vector<BenchResult>& results, const Curve& curve,
                      const Curve& best, size_t compared) {
  const BenchResult& chosen = results[curve.chosen];
  std::string text = format_metric(rate_of(chosen), "samples/s");
  if (curve.knee)
    text += fmt::format("; doubling the batch beyond {} gains less than {:.0f} %", *curve.knee,
                        100 * kKneeGain);
  else if (curve.members.size() > 1)
    text += "; larger batches than those measured may be faster";
  if (compared == 1) return text;
  if (&curve == &best)
    return text + fmt::format("; the best of {} combinations of precision, threads and placement",
                              compared);
  return text + fmt::format(
                    "; {:.0f} % of the best of {} combinations ({}, {}), which uses more resources",
                    100 * rate_of(chosen) / rate_of(results[best.chosen]), compared,
                    results[best.chosen].name,
                    format_metric(rate_of(results[best.chosen]), "samples/s"));
}

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

std::string out_of_memory_line() {
  try {
    throw;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory) throw;
    return error.what();
  } catch (const std::bad_alloc&) {
    return "out of host memory";
  }
}

LargestBatch find_largest_batch(int64_t first, int64_t limit,
                                const std::function<void(int64_t)>& attempt) {
  EMBLEM_REQUIRE(first >= 1 && limit >= first, "the search for the largest batch goes from ", first,
                 " to ", limit,
                 "; expected a start of at least 1 and a limit of at least the start");
  LargestBatch found;
  const auto fits = [&](int64_t batch) {
    try {
      attempt(batch);
      return true;
    } catch (...) {
      found.failed.push_back(cat("batch ", batch, ": ", out_of_memory_line()));
      return false;
    }
  };
  int64_t low = 0, high = 0;  // the largest that fits; the smallest that does not
  int64_t batch = first;
  while (fits(batch)) {
    low = batch;
    if (low == limit) {
      found.batch = limit;
      found.limited = true;
      return found;
    }
    batch = std::min(limit, 2 * low);
  }
  high = batch;
  while (high - low > std::max<int64_t>(1, low / kResolution)) {
    const int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  found.batch = low;
  return found;
}

std::optional<int64_t> find_knee(std::vector<BatchRate> rates) {
  std::sort(rates.begin(), rates.end(),
            [](const BatchRate& a, const BatchRate& b) { return a.batch < b.batch; });
  for (size_t i = 0; i + 1 < rates.size(); ++i) {
    const bool flat = std::all_of(rates.begin() + i + 1, rates.end(), [&](const BatchRate& later) {
      const double doublings =
          std::log2(static_cast<double>(later.batch) / static_cast<double>(rates[i].batch));
      return later.rate < rates[i].rate * std::pow(1 + kKneeGain, doublings);
    });
    if (flat) return rates[i].batch;
  }
  return std::nullopt;
}

std::vector<TrainAdvice> advise_training(const std::vector<BenchResult>& results) {
  std::vector<int64_t> dims;
  for (const BenchResult& result : results)
    if (std::find(dims.begin(), dims.end(), whole(result, "dim")) == dims.end())
      dims.push_back(whole(result, "dim"));
  std::vector<TrainAdvice> advice;
  for (const int64_t dim : dims) {
    const std::vector<Curve> curves = curves_of(results, dim);
    const auto rate = [&](const Curve& curve) { return rate_of(results[curve.chosen]); };
    size_t settings = 0;
    for (const Curve& curve : curves) settings += curve.members.size();
    if (settings < 2) continue;
    const Curve& best =
        *std::max_element(curves.begin(), curves.end(),
                          [&](const Curve& a, const Curve& b) { return rate(a) < rate(b); });
    const Curve* chosen = &best;
    for (const Curve& curve : curves)
      if (rate(curve) >= kGoodEnough * rate(best) && curve.combination < chosen->combination)
        chosen = &curve;
    advice.push_back(
        {chosen->chosen, chosen->knee, reason_of(results, *chosen, best, curves.size())});
  }
  return advice;
}

std::string train_fragment(const BenchResult& result, const std::string& reason) {
  config::PipelineConfig config;
  config.mutable_data_config()->set_batch_size(static_cast<uint32_t>(whole(result, "batch")));
  config::TrainConfig& train = *config.mutable_train_config();
  const std::string precision = precision_of(result);
  train.set_mixed_precision(precision == "bf16" ? "BF16" : precision == "fp16" ? "FP16" : "FP32");
  train.set_num_threads(static_cast<uint32_t>(whole(result, "threads")));
  if (const int64_t bytes = whole(result, "device_bytes"); bytes > 0)
    train.set_device_bytes(static_cast<uint64_t>(bytes));
  return cat("# ", reason, "\n", to_text(config));
}

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
    reset_peak_resident_bytes();  // for the peak of this setting alone
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
