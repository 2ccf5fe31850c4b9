#include "bench/train/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "bench/loader/advice.h"
#include "bench/result/result_table.h"
#include "config/print.h"
#include "emblem/error.h"

namespace emblem {
namespace {

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

}  // namespace

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

}  // namespace emblem
