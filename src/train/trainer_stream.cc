// The trainer on several ranks that divide the partitions of a topic. While a rank waits for
// messages it says so to the others again and again: all of them begin a step, write a delta or
// stop together, and none waits in a collective for long.
#include <algorithm>

#include "comm/bytes.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "kafka/address.h"
#include "train/trainer_run.h"

namespace emblem {
namespace {

using std::chrono::milliseconds;

// Between two looks at all ranks while there is nothing to train on.
constexpr milliseconds kLongestLook{20};

milliseconds longer(milliseconds look) {
  return std::min(std::max(milliseconds(1), 2 * look), kLongestLook);
}

template <class Words, class Test>
bool any(const Words& words, Test&& test) {
  return std::any_of(words.begin(), words.end(), test);
}

}  // namespace

// What all ranks know of a shard while they wait.
struct Trainer::StreamWord {
  uint8_t is_ready = 0;  // there is a full batch, its oldest row has waited long enough, or the end
  uint8_t is_cut_off = 0;  // its partitions cannot be read at the moment
  uint8_t interrupted = 0;
};

// Ranks without a partition take part in every step with no rows.
void Trainer::report_idle_ranks() const {
  const World& world = *options_.world;
  std::vector<int64_t> own;
  for (const DataPosition& each : state_.positions)
    own.push_back(static_cast<int64_t>(each.stream.size()));
  const std::vector<int64_t> by_shard = world.gather(own);
  std::vector<int64_t> by_rank(static_cast<size_t>(world.size()));
  int64_t all = 0;
  for (int64_t shard = 0; shard < world.shards; ++shard) {
    const int64_t count = by_shard[static_cast<size_t>(shard)];
    by_rank[static_cast<size_t>(world.rank_of(shard))] += count;
    all += count;
  }
  const auto idle = std::count(by_rank.begin(), by_rank.end(), 0);
  if (idle > 0 && writes())
    log_info(cat("kafka: topic ", parse_kafka_address(config_.train_input_path()).topic, " has ",
                 all, all == 1 ? " partition" : " partitions", "; ", idle, " of ", world.size(),
                 idle == 1 ? " ranks reads none" : " ranks read none"));
}

// The next step's, where at least one shard has rows; without rows at the end of the data. It
// begins when one shard has a batch: the others then give the rows they have.
std::vector<Trainer::ShardWord> Trainer::wait_for_batches() {
  milliseconds look{0}, waited{0};
  while (intervals_.steps_left(learner_.steps()) != 0) {
    const std::vector<StreamWord> words = options_.world->gather(look_at_streams(look));
    watch_problems(words);
    if (any(words, [](const StreamWord& word) { return word.interrupted != 0; })) {
      outcome_ = TrainOutcome::kInterrupted;
      return {};
    }
    if (any(words, [](const StreamWord& word) { return word.is_ready != 0; })) {
      std::vector<ShardWord> batches = take_batches();
      const bool goes_on = any(batches, [](const ShardWord& word) { return word.has_ended == 0; });
      if (!goes_on || any(batches, [](const ShardWord& word) { return word.rows > 0; }))
        return batches;
    }
    waited += look;
    wait_idle(waited);
    look = longer(look);
  }
  return {};
}

// Of own shards, when one of them is ready or after `timeout`.
std::vector<Trainer::StreamWord> Trainer::look_at_streams(milliseconds timeout) {
  std::vector<StreamWord> own(shard_loaders_.size());
  const auto look = [&] {
    for (size_t s = 0; s < own.size(); ++s)
      own[s].is_ready = !shard_has_ended_[s] && shard_loaders_[s]->wait(milliseconds(0));
    return any(own, [](const StreamWord& word) { return word.is_ready != 0; });
  };
  const auto open = std::find(shard_has_ended_.begin(), shard_has_ended_.end(), false);
  if (!look() && open != shard_has_ended_.end()) {
    shard_loaders_[static_cast<size_t>(open - shard_has_ended_.begin())]->wait(timeout);
    look();
  }
  for (size_t s = 0; s < own.size(); ++s) {
    own[s].is_cut_off = !shard_loaders_[s]->statistics().lag.problem.empty();
    own[s].interrupted = interrupted();
  }
  return own;
}

std::vector<Trainer::ShardWord> Trainer::take_batches() {
  std::vector<ShardWord> own;
  for (size_t s = 0; s < shard_loaders_.size(); ++s) {
    Loader& loader = *shard_loaders_[s];
    shard_has_batch_[s] = false;
    if (!shard_has_ended_[s] && loader.close_batch()) {
      shard_has_batch_[s] = clock_.traced("load", [&] { return shard_streams_[s]->next(); });
      shard_has_ended_[s] = !shard_has_batch_[s];
    }
    const StreamLag lag = loader.statistics().lag;
    ShardWord& word = own.emplace_back(describe_batch(s));
    word.has_ended = shard_has_ended_[s];
    word.lag_messages = lag.messages;
    word.lag_seconds = lag.seconds;
  }
  const std::vector<ShardWord> words = options_.world->gather(own);
  rank_lag_.messages = 0;
  std::optional<double> seconds;  // of the newest row
  for (const ShardWord& word : words) {
    rank_lag_.messages += word.lag_messages;
    if (word.rows > 0) seconds = std::min(seconds.value_or(word.lag_seconds), word.lag_seconds);
  }
  rank_lag_.seconds = seconds.value_or(rank_lag_.seconds);
  return words;
}

// Rank 0 says once what several ranks may have noticed, and that messages come again when the first
// of them gets some: partitions of others may have none for long.
void Trainer::watch_problems(const std::vector<StreamWord>& words) {
  std::optional<int64_t> lost;
  bool is_back = false;
  for (size_t s = 0; s < words.size(); ++s) {
    const bool is_cut_off = words[s].is_cut_off != 0;
    if (is_cut_off && !shard_is_cut_off_[s] && !lost) lost = static_cast<int64_t>(s);
    is_back = is_back || (!is_cut_off && shard_is_cut_off_[s]);
    shard_is_cut_off_[s] = is_cut_off;
  }
  const World& world = *options_.world;
  std::string problem;
  if (lost) {
    const int rank = world.rank_of(*lost);
    if (rank == world.rank())
      problem = shard_loaders_[static_cast<size_t>(*lost - world.first_shard())]
                    ->statistics()
                    .lag.problem;
    broadcast_bytes(*world.ranks, problem, rank);
  }
  if (writes() && (lost || is_back)) stream_watch_->set_problem(problem);
}

// Servers get what was learned before the stream became idle.
void Trainer::wait_idle(milliseconds waited) {
  if (waited < kStreamWait) return;
  if (rows_ > 0)
    checkpoints_->write_delta(state_);
  else if (writes())
    stream_watch_->wait_for_first();
}

// Before the batches are learned.
void Trainer::validate_shards(std::span<const ModelBatch* const> shards, int64_t rows) {
  count_lookups();
  std::vector<ProgressiveValidation::Shard> validated;
  for (size_t s = 0; s < shards.size(); ++s)
    validated.push_back({shards[s], shards[s] == nullptr ? nullptr : &shard_streams_[s]->host()});
  const auto window =
      progressive_.add_shards(learner_.context(), learner_.model(), validated, rows);
  learner_.model().take_lookup_counts(learner_.context());  // not of training
  if (window) report(*window);
}

}  // namespace emblem
