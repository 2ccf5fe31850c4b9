// The loop of a training on several ranks: every rank has the data of its shards, and all decide
// alike.
#include <algorithm>
#include <limits>
#include <numeric>

#include "comm/bytes.h"
#include "comm/sum_all.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "train/trainer_run.h"

namespace emblem {

void Trainer::open_streams() {
  const World& world = *options_.world;
  LoaderOptions options = loader_options();
  options.streams = world.shards;
  options.workers = std::max(1, options.workers / static_cast<int>(world.own_shards()));
  for (int64_t s = 0; s < world.own_shards(); ++s) {
    options.stream = world.first_shard() + s;
    // So that a topic with few partitions is read by as many ranks as possible.
    if (is_stream()) options.stream = world.turn_of(options.stream);
    options.start = resumed_ ? state_.positions[static_cast<size_t>(s)] : DataPosition{};
    shard_loaders_.push_back(std::make_unique<Loader>(config_.data_config(), layout_, options));
    shard_streams_.push_back(
        std::make_unique<BatchStream>(learner_.context(), batches_of(*shard_loaders_.back())));
  }
  state_.positions.clear();
  for (const auto& loader : shard_loaders_) state_.positions.push_back(loader->start());
  shard_has_batch_.assign(shard_loaders_.size(), true);
  if (!is_stream()) return;
  shard_has_ended_.assign(shard_loaders_.size(), false);
  shard_is_cut_off_.assign(static_cast<size_t>(world.shards), false);
  report_idle_ranks();
}

Trainer::ShardWord Trainer::describe_batch(size_t shard) {
  ShardWord word;
  word.epoch = word.next_epoch = state_.positions[shard].epoch;
  if (!shard_has_batch_[shard]) return word;
  const Batch& batch = shard_streams_[shard]->host();
  word.rows = batch.rows;
  word.next_epoch = batch.next.epoch;
  word.unix_ms = batch.unix_ms;
  return word;
}

std::vector<Trainer::ShardWord> Trainer::next_batches() {
  std::vector<ShardWord> own;
  for (size_t s = 0; s < shard_streams_.size(); ++s) {
    BatchStream& stream = *shard_streams_[s];
    if (shard_has_batch_[s])
      shard_has_batch_[s] = clock_.traced("load", [&] { return stream.next(); });
    own.push_back(describe_batch(s));
    own.back().interrupted = interrupted();
  }
  return options_.world->gather(own);
}

void Trainer::step_of_ranks(const std::vector<ShardWord>& words) {
  std::vector<const ModelBatch*> shards;
  std::vector<int64_t> rows;
  for (size_t s = 0; s < shard_streams_.size(); ++s)
    shards.push_back(shard_has_batch_[s] ? &shard_streams_[s]->batch() : nullptr);
  for (const ShardWord& word : words) rows.push_back(word.rows);
  if (progressive_.is_on())
    validate_shards(shards, std::accumulate(rows.begin(), rows.end(), int64_t{0}));
  const auto first =
      std::find_if(shards.begin(), shards.end(), [](auto* b) { return b != nullptr; });
  if (first != shards.end())
    loss_watch_.begin_step(shard_streams_[static_cast<size_t>(first - shards.begin())]->host());
  const auto add_metrics = [&](size_t shard) {
    if (train_metrics_.empty()) return;
    const Batch& batch = shard_streams_[shard]->host();
    train_metrics_.add(batch, logits_.of(learner_.context(), learner_.model(), batch.rows));
  };
  // Which shards of a topic have rows in the next step is not known yet.
  Learner::ComingShards coming;
  if (!is_stream())
    coming = [&] {
      std::vector<const ModelBatch*> next;
      for (size_t s = 0; s < shard_streams_.size(); ++s)
        next.push_back(shard_has_batch_[s] ? shard_streams_[s]->look_ahead() : nullptr);
      return next;
    };
  last_step_ = learner_.step_of_ranks(shards, rows, state_.position.epoch, add_metrics, coming);
  for (size_t s = 0; s < shard_streams_.size(); ++s)
    if (shard_has_batch_[s]) state_.positions[s] = shard_streams_[s]->host().next;
  for (const int64_t each : rows) rows_ += each;
}

void Trainer::train_all_batches_of_ranks() {
  if (writes()) progress_.emplace("training", shard_loaders_[0]->expected_rows());
  clock_.begin_step();
  while (!outcome_) {
    const std::vector<ShardWord> words = is_stream() ? wait_for_batches() : next_batches();
    const auto any = [&](auto&& test) { return std::any_of(words.begin(), words.end(), test); };
    if (any([](const ShardWord& word) { return word.interrupted != 0; })) {
      outcome_ = TrainOutcome::kInterrupted;
      break;
    }
    if (!any([](const ShardWord& word) { return word.rows > 0; })) break;
    // The epoch of a step is that of the shard that is furthest behind.
    StepEnd end{.next_epoch = std::numeric_limits<int64_t>::max()};
    int64_t epoch = end.next_epoch;
    for (const ShardWord& word : words) {
      if (word.rows == 0) continue;
      epoch = std::min(epoch, word.epoch);
      end.next_epoch = std::min(end.next_epoch, word.next_epoch);
      end.unix_ms = std::max(end.unix_ms, word.unix_ms);
    }
    end.last_in_epoch = end.next_epoch > epoch;
    state_.position.epoch = epoch;
    state_.step_begin_unix_ms = unix_ms_now();
    step_of_ranks(words);
    state_.step_end_unix_ms = unix_ms_now();
    if (writes()) {
      if (const auto warning = loss_watch_.end_step(learner_.steps(), last_step_.loss)) {
        progress_->interrupt();
        log_warn(*warning);
      }
      if (intervals_.after(learner_.steps(), end).log || !window_.empty()) log_step();
      progress_->set_total(shard_loaders_[0]->expected_rows() * options_.world->shards);
      show_progress();
    }
    state_.position.epoch = end.next_epoch;
    clock_.end_step();
    after_step(end);
    clock_.begin_step();
  }
  if (progress_) {
    if (!outcome_) progress_->set_total(rows_);  // shards are not all of the size of the first
    progress_->finish();
  }
  if (const auto window = progressive_.finish()) report(*window);
  if (writes() && rows_ > 0 && (log_->last_step() != learner_.steps() || !window_.empty()))
    log_step();
  sum_over_ranks();
  shard_streams_.clear();
  shard_loaders_.clear();
}

// Counts of the whole run.
void Trainer::sum_over_ranks() {
  count_lookups();
  std::vector<int64_t> counts;
  for (const FeatureLookups& one : lookups_)
    counts.insert(counts.end(), {one.counts.values, one.counts.missing});
  counts.push_back(0);
  for (const auto& loader : shard_loaders_) counts.back() += loader->statistics().bad_rows;
  sum_all(Context{}, *options_.world->ranks, std::span(counts));
  for (size_t i = 0; i < lookups_.size(); ++i)
    lookups_[i].counts = {counts[2 * i], counts[2 * i + 1]};
  bad_rows_ = counts.back();
}

}  // namespace emblem
