// cli/ranks.h - this process as one of the ranks of a training.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "comm/communicator.h"
#include "comm/launcher.h"
#include "config/pipeline.pb.h"
#include "train/world.h"

namespace emblem {

// Of ranks other than 0, which check the same configuration: no lines until TrainingRanks is made.
void silence_other_ranks(const RankOptions& options);

// For a rank that ends before TrainingRanks is made: the others, which wait for it, end as well.
void tell_other_ranks(const RankOptions& options, const std::string& transport,
                      const Error& problem);

// Finds out whether this process is one of several, and connects it with the others: they must have
// the same configuration. Ranks other than 0 show warnings only.
class TrainingRanks {
 public:
  // `transport`: "auto", "tcp" or "mpi".
  TrainingRanks(const RankOptions& options, const std::string& transport,
                const config::PipelineConfig& config, bool resume);

  // Null: a single process that trains without shards.
  const World* world() const { return world_ ? &*world_ : nullptr; }
  bool reports() const { return !world_ || world_->rank() == 0; }

  // Runs `body`; when it throws, the other ranks are told why.
  void run(const std::function<void()>& body);

 private:
  std::unique_ptr<Communicator> ranks_;
  std::optional<ShardPlan> plan_;
  std::optional<World> world_;
};

}  // namespace emblem
