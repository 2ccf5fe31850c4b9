#include "train/run/shard_batches.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "comm/bytes.h"
#include "core/system/log.h"
#include "kafka/address.h"

namespace emblem {
namespace {

using std::chrono::milliseconds;

// A stream that has had no rows for this long is idle.
constexpr milliseconds kIdleAfter{100};
// Longest pause between two looks at all ranks while there is nothing to train on.
constexpr milliseconds kLongestLook{20};

// One rank has no others to look at: it sleeps until there is a batch.
milliseconds longer(milliseconds look, const World& world) {
  return std::min(std::max(milliseconds(1), 2 * look),
                  world.size() == 1 ? kIdleAfter : kLongestLook);
}

template <class Shards, class Test>
bool any_of(const Shards& shards, Test&& test) {
  return std::any_of(shards.begin(), shards.end(), test);
}

}  // namespace

ShardBatches::ShardBatches(const Context& context, const config::PipelineConfig& config,
                           const FeatureLayout& layout, const World& world, LoaderOptions options,
                           const std::vector<DataPosition>& start, RunClock& clock,
                           CancelToken cancel)
    : world_(world), clock_(clock), cancel_(std::move(cancel)), steps_left_(options.max_batches) {
  if (is_kafka_address(options.input)) watch_.emplace(parse_kafka_address(options.input).topic);
  options.streams = world.shards;
  options.workers = std::max(1, options.workers / static_cast<int>(world.own_shards()));
  for (int64_t s = 0; s < world.own_shards(); ++s) {
    options.stream = world.first_shard() + s;
    // So that a topic with few partitions is read by as many ranks as possible.
    if (is_stream()) options.stream = world.turn_of(options.stream);
    options.start = start[static_cast<size_t>(s)];
    Shard& shard = shards_.emplace_back();
    shard.loader = std::make_unique<Loader>(config.data_config(), layout, options);
    shard.batches = std::make_unique<BatchStream>(context, batches_of(*shard.loader));
    positions_.push_back(shard.loader->start());
  }
  if (!is_stream()) return;
  is_cut_off_.assign(static_cast<size_t>(world.shards), false);
  report_idle_ranks(parse_kafka_address(options.input).topic);
}

// Ranks without a partition take part in every step with no rows.
void ShardBatches::report_idle_ranks(const std::string& topic) const {
  std::vector<int64_t> own;
  for (const DataPosition& each : positions_)
    own.push_back(static_cast<int64_t>(each.stream.size()));
  const std::vector<int64_t> by_shard = world_.gather(own);
  std::vector<int64_t> by_rank(static_cast<size_t>(world_.size()));
  int64_t all = 0;
  for (int64_t shard = 0; shard < world_.shards; ++shard) {
    const int64_t count = by_shard[static_cast<size_t>(shard)];
    by_rank[static_cast<size_t>(world_.rank_of(shard))] += count;
    all += count;
  }
  const auto idle = std::count(by_rank.begin(), by_rank.end(), 0);
  if (idle > 0 && world_.writes())
    log_info(cat("kafka: topic ", topic, " has ", all, all == 1 ? " partition" : " partitions",
                 "; ", idle, " of ", world_.size(),
                 idle == 1 ? " ranks reads none" : " ranks read none"));
}

const StepBatches* ShardBatches::next(const std::function<void()>& idle) {
  const std::vector<BatchStatus> shards = is_stream() ? wait_for_stream(idle) : take_from_files();
  was_cancelled_ = was_cancelled_ ||
                   any_of(shards, [](const BatchStatus& shard) { return shard.cancelled != 0; });
  has_ended_ =
      !was_cancelled_ && !any_of(shards, [](const BatchStatus& shard) { return shard.rows > 0; });
  if (was_cancelled_ || has_ended_) return nullptr;
  if (steps_left_ > 0) --steps_left_;
  set_step(shards);
  return &step_;
}

void ShardBatches::set_step(const std::vector<BatchStatus>& shards) {
  step_.shards.clear();
  step_.hosts.clear();
  for (size_t s = 0; s < shards_.size(); ++s) {
    const Shard& shard = shards_[s];
    step_.shards.push_back(shard.has_batch ? &shard.batches->batch() : nullptr);
    step_.hosts.push_back(shard.has_batch ? &shard.batches->host() : nullptr);
    if (shard.has_batch) positions_[s] = shard.batches->host().next;
  }
  step_.rows.clear();
  step_.all_rows = 0;
  step_.end = {.next_epoch = std::numeric_limits<int64_t>::max()};
  step_.epoch = step_.end.next_epoch;
  for (const BatchStatus& shard : shards) {
    step_.rows.push_back(shard.rows);
    step_.all_rows += shard.rows;
    if (shard.rows == 0) continue;
    step_.epoch = std::min(step_.epoch, shard.epoch);
    step_.end.next_epoch = std::min(step_.end.next_epoch, shard.next_epoch);
    step_.end.unix_ms = std::max(step_.end.unix_ms, shard.unix_ms);
  }
  step_.end.last_in_epoch = step_.end.next_epoch > step_.epoch;
}

// Which shards of a topic have rows in the next step is not known before it, unless there is one.
std::vector<const ModelBatch*> ShardBatches::look_ahead() {
  std::vector<const ModelBatch*> next(shards_.size(), nullptr);
  if (is_stream() && world_.shards > 1) return next;
  for (size_t s = 0; s < shards_.size(); ++s) {
    const Shard& shard = shards_[s];
    // Remote files may take long to come. (Ranks look ahead together.)
    while (world_.size() == 1 && !is_stream() && shard.has_batch &&
           !shard.batches->has_looked_ahead() && !shard.loader->wait(kIdleAfter))
      if (cancel_.is_cancelled()) return next;
    if (shard.has_batch &&
        (!is_stream() || shard.batches->has_looked_ahead() || shard.loader->wait(milliseconds(0))))
      next[s] = clock_.traced("load", [&] { return shard.batches->look_ahead(); });
  }
  return next;
}

ShardBatches::BatchStatus ShardBatches::status_of(size_t shard) {
  BatchStatus status;
  status.epoch = status.next_epoch = positions_[shard].epoch;
  if (!shards_[shard].has_batch) return status;
  const Batch& batch = shards_[shard].batches->host();
  status.rows = batch.rows;
  status.next_epoch = batch.next.epoch;
  status.unix_ms = batch.unix_ms;
  return status;
}

std::vector<ShardBatches::BatchStatus> ShardBatches::take_from_files() {
  std::vector<BatchStatus> own;
  bool stops = cancel_.is_cancelled();
  for (size_t s = 0; s < shards_.size(); ++s) {
    Shard& shard = shards_[s];
    if (shard.has_batch)
      shard.has_batch = clock_.traced("load", [&] {
        // Remote files may take long to come.
        while (!stops && !shard.batches->has_looked_ahead() && !shard.loader->wait(kIdleAfter))
          stops = cancel_.is_cancelled();
        return !stops && shard.batches->next();
      });
    own.push_back(status_of(s));
    own.back().cancelled = stops;
  }
  return world_.gather(own);
}

// ---- a topic ----

// A step begins when one shard has a batch: the others then give the rows they have. Without rows
// at the end of the data.
std::vector<ShardBatches::BatchStatus> ShardBatches::wait_for_stream(
    const std::function<void()>& idle) {
  milliseconds look{0}, waited{0};
  while (steps_left_ != 0) {
    const std::vector<WaitStatus> waiting = world_.gather(look_at_streams(look));
    watch_problems(waiting);
    was_cancelled_ = any_of(waiting, [](const WaitStatus& shard) { return shard.cancelled != 0; });
    if (was_cancelled_) return {};
    if (any_of(waiting, [](const WaitStatus& shard) { return shard.is_ready != 0; })) {
      std::vector<BatchStatus> taken = take_from_stream();
      const bool has_more =
          any_of(taken, [](const BatchStatus& shard) { return shard.has_ended == 0; });
      if (!has_more || any_of(taken, [](const BatchStatus& shard) { return shard.rows > 0; }))
        return taken;
    }
    waited += look;
    if (waited >= kIdleAfter) idle();
    look = longer(look, world_);
  }
  return {};
}

// Status of own shards: returns when a shard of this rank is ready or after `timeout`.
std::vector<ShardBatches::WaitStatus> ShardBatches::look_at_streams(milliseconds timeout) {
  std::vector<WaitStatus> own(shards_.size());
  const auto look = [&] {
    for (size_t s = 0; s < own.size(); ++s) {
      const Shard& shard = shards_[s];
      own[s].is_ready = !shard.has_ended &&
                        (shard.batches->has_looked_ahead() || shard.loader->wait(milliseconds(0)));
    }
    return any_of(own, [](const WaitStatus& shard) { return shard.is_ready != 0; });
  };
  const auto open = std::find_if(shards_.begin(), shards_.end(),
                                 [](const Shard& shard) { return !shard.has_ended; });
  if (!look() && open != shards_.end()) {
    open->loader->wait(timeout);
    look();
  }
  for (size_t s = 0; s < own.size(); ++s) {
    own[s].is_cut_off = !shards_[s].loader->statistics().lag.problem.empty();
    own[s].cancelled = cancel_.is_cancelled();
  }
  return own;
}

std::vector<ShardBatches::BatchStatus> ShardBatches::take_from_stream() {
  std::vector<BatchStatus> own;
  for (size_t s = 0; s < shards_.size(); ++s) {
    Shard& shard = shards_[s];
    shard.has_batch = false;
    if (!shard.has_ended && (shard.batches->has_looked_ahead() || shard.loader->close_batch())) {
      shard.has_batch = clock_.traced("load", [&] { return shard.batches->next(); });
      shard.has_ended = !shard.has_batch;
    }
    const StreamLag lag = shard.loader->statistics().lag;
    BatchStatus& status = own.emplace_back(status_of(s));
    status.has_ended = shard.has_ended;
    status.lag_messages = lag.messages;
    status.lag_seconds = lag.seconds;
  }
  const std::vector<BatchStatus> shards = world_.gather(own);
  lag_.messages = 0;
  std::optional<double> seconds;  // lag of the newest row
  for (const BatchStatus& shard : shards) {
    lag_.messages += shard.lag_messages;
    if (shard.rows > 0) seconds = std::min(seconds.value_or(shard.lag_seconds), shard.lag_seconds);
  }
  lag_.seconds = seconds.value_or(lag_.seconds);
  return shards;
}

// Rank 0 says once what several ranks may have noticed, and that messages come again when the first
// of them gets some: partitions of others may have none for long.
void ShardBatches::watch_problems(const std::vector<WaitStatus>& shards) {
  std::optional<int64_t> lost;
  bool is_back = false;
  for (size_t s = 0; s < shards.size(); ++s) {
    const bool is_cut_off = shards[s].is_cut_off != 0;
    if (is_cut_off && !is_cut_off_[s] && !lost) lost = static_cast<int64_t>(s);
    is_back = is_back || (!is_cut_off && is_cut_off_[s]);
    is_cut_off_[s] = is_cut_off;
  }
  std::string problem;
  if (lost) {
    const int rank = world_.rank_of(*lost);
    if (rank == world_.rank())
      problem = shards_[static_cast<size_t>(*lost - world_.first_shard())]
                    .loader->statistics()
                    .lag.problem;
    broadcast_bytes(*world_.ranks, problem, rank);
  }
  if (world_.writes() && (lost || is_back)) watch_->set_problem(problem);
}

void ShardBatches::wait_for_first() {
  if (world_.writes()) watch_->wait_for_first();
}

// ---- counts ----

// Shards are about as large as the first of this rank; exact at the end of a single shard.
int64_t ShardBatches::expected_rows() const {
  return shards_[0].loader->expected_rows() * world_.shards;
}

int64_t ShardBatches::bad_rows() const {
  int64_t rows = 0;
  for (const Shard& shard : shards_) rows += shard.loader->statistics().bad_rows;
  return rows;
}

// ---- batches of a caller ----

GivenBatches::GivenBatches(const Context& context, const World& world)
    : world_(world), batches_(context, [this] { return given_; }) {
  EMBLEM_REQUIRE(world.own_shards() == 1, "batches are given to a rank with ", world.own_shards(),
                 " shards; choose train_config.logical_shards as large as the number of ranks");
}

const StepBatches* GivenBatches::take(const Batch& batch, bool is_cancelled) {
  const auto cancelled = world_.gather(std::vector<uint8_t>{is_cancelled});
  was_cancelled_ = std::count(cancelled.begin(), cancelled.end(), 1) > 0;
  if (was_cancelled_) return nullptr;
  given_ = &batch;
  batches_.next();
  step_.shards = {batch.rows > 0 ? &batches_.batch() : nullptr};
  step_.hosts = {batch.rows > 0 ? &batch : nullptr};
  step_.rows = world_.gather(std::vector<int64_t>{batch.rows});
  step_.all_rows = std::accumulate(step_.rows.begin(), step_.rows.end(), int64_t{0});
  return step_.all_rows > 0 ? &step_ : nullptr;
}

}  // namespace emblem
