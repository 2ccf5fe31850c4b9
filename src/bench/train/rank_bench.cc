#include "bench/train/rank_bench.h"

#include <algorithm>
#include <chrono>

#include "comm/threads.h"
#include "core/interrupt.h"
#include "core/stream.h"
#include "core/thread_pool.h"
#include "train/learner.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A share of the threads and, on a GPU, a stream.
class RankContext {
 public:
  RankContext(const Context& all, int ranks)
      : pool_(std::max(1, (all.threads != nullptr ? all.threads->threads() : 1) / ranks)),
        stream_(dispatch(
            all.device, [] { return std::shared_ptr<cuda::Stream>(); },
            [] { return std::make_shared<cuda::Stream>(); })) {
    context_ = {.device = all.device, .threads = &pool_};
    dispatch(
        all.device, [] {}, [&] { context_.stream = stream_->get(); });
  }
  const Context& get() const { return context_; }

 private:
  ThreadPool pool_;
  std::shared_ptr<cuda::Stream> stream_;
  Context context_;
};

}  // namespace

RankSteps measure_ranks(const Context& context, const config::PipelineConfig& config,
                        const FeatureLayout& layout, int ranks, int64_t rows,
                        const TrainBenchOptions& options, const MakeRankInput& input) {
  RankSteps found;
  run_thread_ranks(ranks, [&](Communicator& own) {
    const RankContext of_rank(context, ranks);
    const World world{.ranks = &own, .shards = ranks};
    Learner learner(of_rank.get(), config, layout, rows, &world);
    const auto batches = input(of_rank.get(), own.rank());
    const std::vector<int64_t> rows_of_shards(static_cast<size_t>(ranks), rows);
    const auto step = [&] {
      const ModelBatch* batch = batches->next();
      return learner
          .step_of_ranks({&batch, 1}, rows_of_shards, 0, nullptr,
                         [&] { return std::vector{batches->look_ahead()}; })
          .loss;
    };
    double loss = 0.0;
    for (int64_t i = 0; i < options.warmup; ++i) {
      loss = step();
      if (i == 0 && own.rank() == 0) found.first_loss = loss;
    }
    of_rank.get().synchronize();
    own.barrier();
    const auto start = Clock::now();
    for (bool more = true; more;) {
      const auto begin = Clock::now();
      loss = step();
      if (own.rank() == 0) {  // which decides for all
        found.seconds.push_back(seconds_since(begin));
        more = !interrupted() && (static_cast<int64_t>(found.seconds.size()) < options.steps ||
                                  seconds_since(start) < options.seconds);
      }
      own.broadcast(Context{}, {&more, sizeof(more)}, 0);
    }
    of_rank.get().synchronize();
    own.barrier();
    if (own.rank() != 0) return;
    found.total_seconds = seconds_since(start);
    found.last_loss = loss;
    learner.model().check(of_rank.get());
  });
  return found;
}

}  // namespace emblem
