#include "plan/cost/step_times.h"

#include <algorithm>
#include <memory>

#include "core/system/interrupt.h"
#include "train/learner/learner.h"
#include "train/run/batch_stream.h"

namespace emblem {
namespace {

constexpr int64_t kTimedBatches = 8;  // batches of a rank, used in turn
constexpr size_t kTurns = 4, kMostTurns = 8;
constexpr int64_t kFirstWarmup = 3, kWarmup = 1;  // steps before those that count
constexpr double kSettled = 1.05;                 // the most by which the two fastest turns differ

// The model of this rank under one plan.
class PlannedSteps {
 public:
  PlannedSteps(RankTimer& timer, const ProbeRanks& ranks, const config::PipelineConfig& config,
               const FeatureLayout& layout, int64_t shards, const ShardPlan& plan,
               int64_t most_rows)
      : timer_(timer),
        own_shards_(static_cast<size_t>(shards)),
        world_{.ranks = &ranks.control,
               .shards = shards * ranks.control.size(),
               .plan = &plan,
               .exchange = &ranks.exchange},
        learner_(timer.context(), config, layout, most_rows, world_) {}

  // The median of one turn, equal on all ranks.
  double turn(const std::vector<Batch>& batches, int64_t warmup) {
    size_t next = 0;
    BatchStream stream(timer_.context(),
                       [&]() -> const Batch* { return &batches[next++ % batches.size()]; });
    const auto step = [&] {
      stream.next();
      const std::vector<const ModelBatch*> shards(own_shards_, &stream.batch());
      const std::vector<int64_t> rows(own_shards_, stream.batch().rows);
      return timer_.time([&] { learner_.step(shards, world_.gather(rows), 0); });
    };
    timer_.barrier();
    double last = 0;
    for (int64_t i = 0; i < warmup; ++i) last = step();
    std::vector<double> seconds;
    for (int64_t i = timer_.repetitions(last); i > 0; --i) seconds.push_back(step());
    if (interrupted()) throw Error(ErrorCode::kCancelled, "interrupted");
    return median_of_slowest(timer_.ranks(), std::move(seconds));
  }

  double table_bytes() {
    double own = 0;
    for (const Table* table : learner_.model().tables()) own += static_cast<double>(table->bytes());
    return median_of_slowest(timer_.ranks(), {own});
  }

 private:
  RankTimer& timer_;
  const size_t own_shards_;
  const World world_;
  Learner learner_;
};

}  // namespace

bool are_settled(std::vector<double> medians) {
  if (medians.size() < 2) return false;
  std::partial_sort(medians.begin(), medians.begin() + 2, medians.end());
  return medians[1] <= kSettled * medians[0];
}

std::vector<PlanTimes> time_steps(RankTimer& timer, const ProbeRanks& ranks,
                                  const config::PipelineConfig& config, int64_t shards,
                                  std::span<const ShardPlan> plans, const ProbeOptions& options) {
  const FeatureLayout layout = layout_of(config);
  const int64_t most = *std::max_element(options.rows.begin(), options.rows.end());
  std::vector<std::unique_ptr<PlannedSteps>> steps;
  for (const ShardPlan& plan : plans)
    steps.push_back(
        std::make_unique<PlannedSteps>(timer, ranks, config, layout, shards, plan, most));
  std::vector<std::vector<Batch>> batches;  // by rows
  for (const int64_t rows : options.rows) {
    batches.push_back(options.batches(layout, rows, kTimedBatches));
    EMBLEM_REQUIRE(!batches.back().empty(), "no rows to measure steps with");
  }
  std::vector<std::vector<std::vector<double>>> medians(
      plans.size(), std::vector<std::vector<double>>(batches.size()));
  for (size_t turn = 0; turn < kMostTurns; ++turn)
    for (size_t b = 0; b < batches.size(); ++b)
      for (size_t p = 0; p < plans.size(); ++p)
        if (turn < kTurns || !are_settled(medians[p][b]))
          medians[p][b].push_back(steps[p]->turn(batches[b], turn == 0 ? kFirstWarmup : kWarmup));
  std::vector<PlanTimes> times(plans.size());
  for (size_t p = 0; p < plans.size(); ++p) {
    times[p].table_bytes = steps[p]->table_bytes();
    for (const std::vector<double>& each : medians[p])
      times[p].seconds.push_back(*std::min_element(each.begin(), each.end()));
  }
  return times;
}

}  // namespace emblem
