#include "train/run/step_watch.h"

#include <algorithm>

#include "comm/sum_all.h"
#include "train/learner/lookup_report.h"

namespace emblem {
namespace {

LossWatch::Scale scale_of_losses(const std::vector<HeadSpec>& heads) {
  const bool numbers = std::any_of(heads.begin(), heads.end(), [](const HeadSpec& head) {
    return head.kind == HeadKind::kNumber;
  });
  return numbers ? LossWatch::Scale::kLabels : LossWatch::Scale::kClasses;
}

}  // namespace

StepWatch::StepWatch(const config::PipelineConfig& config, const FeatureLayout& layout,
                     Learner& learner)
    : learner_(learner),
      losses_(layout, scale_of_losses(heads_of(config, layout))),
      metrics_(heads_of(config, layout)),
      progressive_(config, layout, learner.world()) {}

std::optional<ProgressiveValidation::Window> StepWatch::begin_step(const StepBatches& step) {
  std::optional<ProgressiveValidation::Window> window;
  if (progressive_.is_on()) {
    count_lookups();
    std::vector<ProgressiveValidation::Shard> shards;
    for (size_t s = 0; s < step.shards.size(); ++s)
      shards.push_back({step.shards[s], step.hosts[s]});
    window = progressive_.add(learner_.context(), learner_.model(), shards, step.all_rows);
    learner_.model().take_lookup_counts(learner_.context());  // not of training
  }
  const auto first = std::find_if(step.hosts.begin(), step.hosts.end(),
                                  [](const Batch* batch) { return batch != nullptr; });
  if (first != step.hosts.end()) losses_.begin_step(**first);
  return window;
}

void StepWatch::add(const Batch& batch) {
  if (!metrics_.empty())
    metrics_.add(batch, logits_.of(learner_.context(), learner_.model(), batch.rows));
}

std::optional<std::string> StepWatch::end_step(double loss) {
  return losses_.end_step(learner_.steps(), loss);
}

void StepWatch::count_lookups() {
  add_lookups(learner_.model().take_lookup_counts(learner_.context()), lookups_);
}

void StepWatch::sum_lookups() {
  count_lookups();
  std::vector<int64_t> counts;
  for (const FeatureLookups& one : lookups_)
    counts.insert(counts.end(), {one.counts.values, one.counts.missing});
  sum_all(Context{}, *learner_.world().ranks, std::span(counts));
  for (size_t i = 0; i < lookups_.size(); ++i)
    lookups_[i].counts = {counts[2 * i], counts[2 * i + 1]};
}

}  // namespace emblem
