#include "cli/ranks.h"

#include "checkpoint/checkpoint.h"
#include "comm/open.h"
#include "config/print.h"
#include "core/caught_error.h"
#include "core/file.h"
#include "core/hash.h"
#include "core/log.h"

namespace emblem {
namespace {

constexpr double kExitSeconds = 5;  // from a failure to the end of a process that hangs

// As the configuration says, else those of the checkpoint that is continued, else one a rank.
int64_t shards_of(const config::PipelineConfig& config, bool resume, int ranks) {
  if (config.train_config().logical_shards() > 0) return config.train_config().logical_shards();
  if (resume) {
    if (const auto checkpoint = latest_checkpoint(config.model_dir(), Skipped::kIgnore)) {
      const auto stored = static_cast<int64_t>(read_manifest(*checkpoint).positions.size());
      if (stored >= ranks) return stored;
    }
  }
  return ranks;
}

}  // namespace

void silence_other_ranks(const RankOptions& options) {
  if (find_rank_place(options).rank == 0) return;
  LogSettings quiet = log_settings();
  quiet.info = quiet.warning = false;
  set_log_settings(quiet);
}

void tell_other_ranks(const RankOptions& options, const std::string& transport,
                      const Error& problem) {
  const RankPlace place = find_rank_place(options);
  if (place.size == 1 || place.address.empty() || transport == "mpi") return;
  refuse_to_join({.rank = place.rank,
                  .size = place.size,
                  .address = place.address,
                  .port = place.port,
                  .join_seconds = options.join_seconds},
                 problem.what());
}

TrainingRanks::TrainingRanks(const RankOptions& options, const std::string& transport,
                             const config::PipelineConfig& config, bool resume) {
  const RankPlace place = find_rank_place(options);
  int64_t shards = shards_of(config, resume, place.size);
  if (place.size == 1 && shards == 1) return;
  const std::string& plan_path = config.train_config().plan_path();
  std::string plan;
  try {
    if (!plan_path.empty()) {
      plan = read_text_file(plan_path);
      plan_ = parse_plan(plan, plan_path);
    }
  } catch (const Error& error) {
    tell_other_ranks(options, transport, error);
    throw;
  }
  TcpSettings settings;
  settings.join.configuration = hash_string(to_stored_text(config) + plan);
  settings.join.join_seconds = options.join_seconds;
  settings.collective_seconds = options.collective_seconds;
  settings.watch.exit_seconds = kExitSeconds;
  ranks_ = open_communicator(place, transport, settings);
  ranks_->broadcast(Context{}, {&shards, sizeof(shards)}, 0);
  world_ = World{.ranks = ranks_.get(), .shards = shards, .plan = plan_ ? &*plan_ : nullptr};
  if (world_->rank() == 0) {
    log_info(cat(ranks_->size(), ranks_->size() == 1 ? " rank (" : " ranks (", ranks_->transport(),
                 "), ", shards, " shards of a batch"));
    return;
  }
  LogSettings quiet = log_settings();
  quiet.warning = true;
  set_log_settings(quiet);
}

void TrainingRanks::run(const std::function<void()>& body) {
  try {
    body();
  } catch (const CommonError&) {
    ranks_.reset();  // leaves when all ranks have it, not as one that failed
    throw;
  } catch (...) {
    const Error error = caught_error();
    if (ranks_) ranks_->fail(error.what());
    throw;
  }
}

}  // namespace emblem
