#include "bench/loader/advice.h"

#include <algorithm>
#include <tuple>

#include "config/load/load.h"
#include "emblem/error.h"

namespace emblem {
namespace {

bool comparable(const LoaderSetting& a, const LoaderSetting& b) {
  return a.loading.shuffle == b.loading.shuffle &&
         a.loading.sample_ratio == b.loading.sample_ratio && a.cache == b.cache;
}

auto size_of(const LoaderSetting& setting) {
  const LoaderOptions& loading = setting.loading;
  return std::tuple(loading.workers, loading.batch_size, loading.prefetch_batches,
                    setting.data.download_threads(), setting.data.part_bytes());
}

}  // namespace

LoaderAdvice advise(const std::vector<LoaderSetting>& settings, const std::vector<double>& rates,
                    const CompareAgain& compare_again) {
  EMBLEM_REQUIRE(!settings.empty() && settings.size() == rates.size(),
                 "advice needs a rate for each setting: ", settings.size(), " settings, ",
                 rates.size(), " rates");
  std::vector<size_t> candidates;
  for (size_t i = 0; i < settings.size(); ++i)
    if (comparable(settings[i], settings.front())) candidates.push_back(i);

  LoaderAdvice advice;
  advice.compared = candidates.size();
  advice.best = *std::max_element(candidates.begin(), candidates.end(),
                                  [&](size_t a, size_t b) { return rates[a] < rates[b]; });
  std::erase_if(candidates, [&](size_t i) { return rates[i] < kGoodEnough * rates[advice.best]; });
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](size_t a, size_t b) { return size_of(settings[a]) < size_of(settings[b]); });
  for (const size_t candidate : candidates) {
    advice.recommended = candidate;
    advice.share = candidate == advice.best ? 1 : compare_again(candidate, advice.best);
    if (advice.share >= kGoodEnough) return advice;
  }
  advice.recommended = advice.best;
  advice.share = 1;
  return advice;
}

std::string config_fragment(const LoaderSetting& setting, const std::string& reason) {
  config::PipelineConfig config;
  config.set_train_input_path(setting.loading.input);
  config::DataConfig& data = *config.mutable_data_config();
  data.set_dataset_type(setting.data.dataset_type());
  data.set_batch_size(static_cast<uint32_t>(setting.loading.batch_size));
  data.set_num_workers(static_cast<uint32_t>(setting.loading.workers));
  data.set_prefetch_batches(static_cast<uint32_t>(setting.loading.prefetch_batches));
  if (setting.is_remote()) {
    data.set_download_threads(setting.data.download_threads());
    data.set_part_bytes(setting.data.part_bytes());
  }
  return cat("# ", reason, "\n", to_text(config));
}

}  // namespace emblem
