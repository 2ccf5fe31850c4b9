#include "ranks/ranks.h"

#include "checkpoint/checkpoint.h"
#include "comm/bytes.h"
#include "comm/nccl/open_device.h"
#include "comm/nccl/rank_gpu.h"
#include "comm/open.h"
#include "comm/tcp/job_secret.h"
#include "config/check/sharding_types.h"
#include "config/feature/features.h"
#include "config/load/load.h"
#include "core/files/file.h"
#include "core/math/hash.h"
#include "core/system/caught_error.h"
#include "core/system/log.h"
#include "plan/search/search.h"
#include "runtime/runtime.h"

namespace emblem {
namespace {

// As the configuration says, else those of the checkpoint that is continued, else one per rank.
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
                  .join_seconds = options.join_seconds,
                  .secret = job_secret()},
                 problem.what());
}

TcpSettings tcp_settings_of(const RankOptions& options, uint64_t configuration) {
  TcpSettings settings;
  settings.join.configuration = configuration;
  settings.join.join_seconds = options.join_seconds;
  settings.collective_seconds = options.collective_seconds;
  settings.watch = Runtime::current().watch_settings();
  return settings;
}

void JobRanks::connect(const RankPlace& place, const std::string& transport, uint64_t settings) {
  ranks_ = open_communicator(place, transport, tcp_settings_of(options_, settings));
  choose_gpu(*ranks_, Runtime::current().options().set_variable);
  world_ = World{.ranks = ranks_.get(), .shards = ranks_->size()};
}

void JobRanks::silence_others() const {
  if (world_.rank() == 0) return;
  LogSettings quiet = log_settings();
  quiet.info = false;
  quiet.warning = true;
  set_log_settings(quiet);
}

TrainingRanks::TrainingRanks(const RankOptions& options, const std::string& transport,
                             const config::PipelineConfig& config, bool resume,
                             const std::string& command)
    : JobRanks(options) {
  const RankPlace place = find_rank_place(options);
  int64_t shards = shards_of(config, resume, place.size);
  if (place.size == 1 && shards == 1) return;
  const std::string& plan_path = config.train_config().plan_path();
  std::string plan;
  try {
    if (!plan_path.empty()) {
      plan = read_text_file(plan_path);
      plan_ = parse_plan(plan, plan_path);
    } else {
      plan_ = constrained_plan(config, layout_of(config), place.size);
    }
  } catch (const Error& error) {
    tell_other_ranks(options, transport, error);
    throw;
  }
  // What a checkpoint recorded is compared with the checkpoint itself: not all ranks may see it.
  config::PipelineConfig compared = config;
  compared.mutable_data_config()->clear_column_types();
  connect(place, transport, hash_string(cat(to_stored_text(compared), plan, command)));
  ranks_->broadcast(Context{}, {&shards, sizeof(shards)}, 0);
  world_.shards = shards;
  world_.plan = plan_ ? &*plan_ : nullptr;
  if (world_.rank() == 0)
    log_info(cat(ranks_->size(), ranks_->size() == 1 ? " rank (" : " ranks (", ranks_->transport(),
                 "), ", shards, " shards of a batch"));
  if (world_.rank() == 0 && plan_path.empty())
    for (const std::string& line : unsupported_sharding(config)) log_warn(line);
  silence_others();
}

ModelRanks::ModelRanks(const RankOptions& options, const std::string& transport,
                       const std::string& command)
    : JobRanks(options) {
  const RankPlace place = find_rank_place(options);
  if (place.size == 1) return;
  connect(place, transport, hash_string(command));
  if (world_.rank() == 0) log_info(cat(ranks_->size(), " ranks (", ranks_->transport(), ")"));
  silence_others();
}

void JobRanks::open_device(const Context& context, const std::string& transport) {
  if (!ranks_ || context.device == Device::kCpu) return;
  device_ranks_ = open_device_communicator(context, *ranks_, transport, options_.collective_seconds,
                                           Runtime::current().options().set_variable);
  if (!device_ranks_) return;
  world_.exchange = device_ranks_.get();
  if (world_.rank() == 0) log_info(cat("GPU memory of ranks: ", device_ranks_->transport()));
}

std::string JobRanks::find_common_checkpoint(const std::string& path, const Storage& storage) {
  std::string checkpoint;
  if (reports()) checkpoint = find_checkpoint(path, storage);
  broadcast_bytes(*world_.ranks, checkpoint);
  return checkpoint;
}

void JobRanks::run(const std::function<void()>& body) {
  try {
    body();
  } catch (const CommonError&) {
    device_ranks_.reset();
    ranks_.reset();  // leaves when all ranks have it, not as one that failed
    throw;
  } catch (...) {
    const Error error = caught_error();
    world_.ranks->check();  // the failure of another rank may be the reason of this error
    world_.ranks->fail(error.what());
    throw;
  }
}

}  // namespace emblem
