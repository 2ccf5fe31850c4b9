// ranks/ranks.h - this process as one of the ranks of a training.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "comm/communicator.h"
#include "comm/tcp/launcher.h"
#include "comm/tcp/tcp.h"
#include "config/proto/pipeline.pb.h"
#include "data/source/storage.h"
#include "train/run/world.h"

namespace emblem {

// Ranks other than 0, which check the same configuration, log nothing until TrainingRanks is
// made.
void silence_other_ranks(const RankOptions& options);

// For a rank that ends before TrainingRanks is made: the others, which wait for it, end as well.
void tell_other_ranks(const RankOptions& options, const std::string& transport,
                      const Error& problem);

// How a rank joins its job; ranks with another `configuration` are refused.
TcpSettings tcp_settings_of(const RankOptions& options, uint64_t configuration);

// What commands that may run as several ranks do together. Ranks other than 0 show warnings
// only. Ranks of a host use its GPUs in turn; it is made before CUDA is used.
class JobRanks {
 public:
  // Connects the GPUs of the ranks, if `context` has one: World::exchange. `transport`: "auto",
  // "nccl" or "staged" (comm/nccl/open_device.h). Called on every rank, in run().
  void open_device(const Context& context, const std::string& transport);

  // The checkpoint that `path` names, or the latest of a model directory, as rank 0 finds it.
  // Collective.
  std::string find_common_checkpoint(const std::string& path, const Storage& storage);

  const World& world() const { return world_; }
  bool reports() const { return world_.writes(); }

  // Runs `body`; when it throws, the other ranks are told why.
  void run(const std::function<void()>& body);

 protected:
  explicit JobRanks(const RankOptions& options) : options_(options) {}
  // `transport`: "auto", "tcp" or "mpi". `settings` must be equal on all ranks. Then world_ has one
  // shard per rank.
  void connect(const RankPlace& place, const std::string& transport, uint64_t settings);
  void silence_others() const;

  const RankOptions options_;
  std::unique_ptr<Communicator> ranks_;         // null: a single process without shards
  std::unique_ptr<Communicator> device_ranks_;  // uses ranks_
  World world_ = World::alone();
};

// Finds out whether this process is one of several that train, and connects it with the others:
// they must have the same configuration and `command`, the options that must be equal.
class TrainingRanks : public JobRanks {
 public:
  TrainingRanks(const RankOptions& options, const std::string& transport,
                const config::PipelineConfig& config, bool resume, const std::string& command);

 private:
  std::optional<ShardPlan> plan_;
};

// The same of processes that use a trained model; `command` has the options that must be equal.
class ModelRanks : public JobRanks {
 public:
  ModelRanks(const RankOptions& options, const std::string& transport, const std::string& command);
};

}  // namespace emblem
