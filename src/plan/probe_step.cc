// Whole steps, as a training of all ranks runs them.
#include <algorithm>

#include "plan/probe.h"
#include "train/batch_stream.h"
#include "train/learner.h"

namespace emblem {
namespace {

constexpr int64_t kBatches = 4, kWarmup = 8;  // batches are used in turn

}  // namespace

StepCosts probe_step(RankTimer& timer, const ProbeRanks& ranks,
                     const config::PipelineConfig& config, const Workload& workload,
                     const ProbeOptions& options) {
  const World world{.ranks = &ranks.control,
                    .shards = workload.shards * ranks.control.size(),
                    .exchange = &ranks.exchange};
  const FeatureLayout layout = layout_of(config);
  const int64_t most = *std::max_element(options.rows.begin(), options.rows.end());
  Learner learner(timer.context(), config, layout, most, &world);
  std::vector<CurvePoint> points;
  for (const int64_t rows : options.rows) {
    const std::vector<Batch> batches = options.batches(layout, rows, kBatches);
    EMBLEM_REQUIRE(!batches.empty(), "no rows to measure steps with");
    size_t next = 0;
    BatchStream stream(timer.context(),
                       [&]() -> const Batch* { return &batches[next++ % batches.size()]; });
    const auto step = [&] {
      stream.next();
      const std::vector<const ModelBatch*> shards(static_cast<size_t>(workload.shards),
                                                  &stream.batch());
      const std::vector<int64_t> own(shards.size(), stream.batch().rows);
      return timer.time([&] { learner.step_of_ranks(shards, world.gather(own), 0); });
    };
    double last = 0;
    for (int64_t i = 0; i < kWarmup; ++i) last = step();
    std::vector<double> seconds;
    for (int64_t i = timer.repetitions(last); i > 0; --i) seconds.push_back(step());
    points.push_back({static_cast<double>(rows), median_of_slowest(ranks.control, seconds)});
  }
  return {workload.shards, Curve(std::move(points))};
}

}  // namespace emblem
