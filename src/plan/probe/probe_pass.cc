// The model's own pass: every rank runs whole steps by itself, all of them at the same time.
#include <algorithm>
#include <numeric>

#include "comm/threads/threads.h"
#include "plan/cost/cost.h"
#include "plan/probe/links.h"
#include "plan/probe/probe.h"
#include "plan/probe/rank_timer.h"
#include "train/learner/learner.h"
#include "train/run/batch_stream.h"

namespace emblem {
namespace {

constexpr int64_t kBatches = 4;  // used in turn

double sum_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// A step by part, its exchanges with itself taken off.
struct OwnStep {
  double lookup = 0, update = 0, others = 0;
};

class OwnSteps {
 public:
  OwnSteps(RankTimer& timer, const config::PipelineConfig& config, const FeatureLayout& layout,
           int64_t most_rows, size_t lookups)
      : timer_(timer),
        lookups_(lookups),
        own_(std::move(make_thread_ranks(1).front())),
        timed_(*own_),
        world_{.ranks = &timed_, .exchange = &timed_},
        learner_(timer.context(), config, layout, most_rows, world_) {
    learner_.model().stage_clock().switch_on(timer.context());
  }

  OwnStep run(const ModelBatch& batch) {
    StageSeconds& stages = learner_.model().stages();
    learner_.model().stage_clock().collect();
    stages = {};
    timed_.clear();
    size_t in_forward = 0;
    const ModelBatch* shard = &batch;
    timer_.barrier();
    const double total = timer_.time([&] {
      learner_.step({&shard, 1}, std::span(&batch.rows, 1), 0,
                    [&](size_t) { in_forward = timed_.seconds().size(); });
    });
    learner_.model().stage_clock().collect();
    const std::span<const double> exchanges = timed_.seconds();
    const size_t last = std::min(lookups_, exchanges.size() - in_forward);
    OwnStep step;
    step.lookup = stages.lookup - sum_of(exchanges.first(in_forward));
    step.update = stages.update - sum_of(exchanges.last(last));
    step.others = total - sum_of(exchanges) - step.lookup - step.update;
    return step;
  }

 private:
  RankTimer& timer_;
  const size_t lookups_;
  std::unique_ptr<Communicator> own_;
  TimedCommunicator timed_;
  World world_;
  Learner learner_;
};

// What holding the rows of a rank's own batch costs.
struct HeldSeconds {
  double gather = 0, update = 0;
};

HeldSeconds held_seconds(const MachineProfile& profile, const Workload& workload, int ranks,
                         int64_t rows) {
  Workload smaller = workload;
  smaller.rows = rows;
  smaller.shards = 1;
  for (WorkloadTable& table : smaller.tables) {
    table.expected_keys /= ranks;
    table.settings.capacity = std::max<int64_t>(1, table.settings.capacity / ranks);
  }
  const CostModel own(profile, smaller, even_hosts(1, 1), [](const Traffic&) { return 0.0; });
  HeldSeconds sum;
  for (size_t t = 0; t < smaller.tables.size(); ++t) {
    const TableLoad load = own.load_of(t, over_all_ranks(smaller.tables[t].settings.name, 1));
    sum.gather += load.gather[0];
    sum.update += load.update[0];
  }
  return sum;
}

// Keys of tables that have fewer rows here than in the pipeline.
void fit_keys(const Workload& workload, const FeatureLayout& layout, std::vector<Batch>& batches) {
  for (const WorkloadTable& table : workload.tables) {
    if (table.settings.kind != TableKind::kStatic) continue;
    for (const FeatureSpec& feature : layout.features) {
      const bool reads = feature.kind == FeatureKind::kSparse && !feature.is_intermediate &&
                         std::find(table.features.begin(), table.features.end(),
                                   feature.sparse_index) != table.features.end();
      const int64_t rows = reads ? table_rows(feature) : 0;
      if (rows == 0) continue;
      for (Batch& batch : batches)
        for (int64_t& key : batch.sparse[static_cast<size_t>(feature.sparse_index)].keys)
          key %= rows;
    }
  }
}

}  // namespace

PassCosts probe_pass(RankTimer& timer, const config::PipelineConfig& config,
                     const Workload& workload, const std::vector<TableCosts>& tables,
                     const ProbeOptions& options) {
  const int ranks = timer.ranks().size();
  config::PipelineConfig divided = config;
  divided.mutable_train_config()->set_divide_tables(
      std::max(1u, config.train_config().divide_tables()) * static_cast<uint32_t>(ranks));
  const FeatureLayout layout = layout_of(divided);
  const int64_t most = *std::max_element(options.rows.begin(), options.rows.end());
  MachineProfile probed;
  probed.tables = tables;
  OwnSteps steps(timer, divided, layout, most, workload.lookups);
  std::vector<CurvePoint> requests, dense, sums;
  for (const int64_t rows : options.rows) {
    std::vector<Batch> batches = options.batches(layout, rows, kBatches);
    EMBLEM_REQUIRE(!batches.empty(), "no rows to measure the model with");
    fit_keys(workload, layout, batches);
    size_t next = 0;
    BatchStream stream(timer.context(),
                       [&]() -> const Batch* { return &batches[next++ % batches.size()]; });
    const auto step = [&] {
      stream.next();
      return steps.run(stream.batch());
    };
    double last = 0;
    for (int64_t i = 0; i <= kBatches; ++i) {
      const double begin = seconds_now();
      step();
      last = seconds_now() - begin;
    }
    std::vector<double> lookups, updates, others;
    for (int64_t i = timer.repetitions(last); i > 0; --i) {
      const OwnStep found = step();
      lookups.push_back(found.lookup);
      updates.push_back(found.update);
      others.push_back(found.others);
    }
    const HeldSeconds held = held_seconds(probed, workload, ranks, rows);
    const auto size = static_cast<double>(rows);
    const auto slowest = [&](const std::vector<double>& own) {
      return low_of_slowest(timer.ranks(), own);
    };
    requests.push_back({size, std::max(0.0, slowest(lookups) - held.gather)});
    dense.push_back({size, std::max(0.0, slowest(others))});
    sums.push_back({size, std::max(0.0, slowest(updates) - held.update)});
  }
  return {Curve(std::move(requests)), Curve(std::move(dense)), Curve(std::move(sums))};
}

}  // namespace emblem
