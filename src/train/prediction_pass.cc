#include "train/prediction_pass.h"

#include <algorithm>

#include "comm/sum_all.h"
#include "core/interrupt.h"
#include "core/progress.h"
#include "train/batch_stream.h"
#include "train/host_logits.h"

namespace emblem {
namespace {

LoaderOptions with_memory(LoaderOptions options, std::pmr::memory_resource* memory) {
  if (options.memory == nullptr) options.memory = memory;
  options.bad_rows = BadRowHandling::kBlank;
  return options;
}

// The batches of a stream and what the model predicts of them.
class PredictionStream {
 public:
  PredictionStream(const Context& context, Model& model, const config::PipelineConfig& config,
                   const FeatureLayout& layout, const LoaderOptions& options)
      : context_(context),
        model_(model),
        memory_(options.memory == nullptr ? batch_memory(context) : nullptr),
        loader_(config.data_config(), layout, with_memory(options, memory_.get())),
        batches_(context, batches_of(loader_)) {}

  // Moves on to the next batch; false at the end, and then not called again.
  bool next() { return batches_.next(); }

  // Of the current batch; adds to `pass`.
  void predict(const TakePredictions& take, PredictionPass& pass) {
    const Batch& batch = batches_.host();
    model_.forward(context_, batches_.batch(), Phase::kEval, 0);
    batches_.look_ahead();
    take(batch, logits_.of(context_, model_, batch.rows));
    const auto bad = std::count(batch.bad.begin(), batch.bad.end(), 1);
    pass.rows += batch.rows - bad;
    pass.bad_rows += bad;
  }

  int64_t expected_rows() const { return loader_.expected_rows(); }

 private:
  const Context& context_;
  Model& model_;
  std::shared_ptr<std::pmr::memory_resource> memory_;
  Loader loader_;
  BatchStream batches_;
  HostLogits logits_;
};

void finish(const Context& context, Model& model, PredictionPass& pass) {
  model.check(context);
  pass.lookups = model.take_lookup_counts(context);
}

// What a rank does in a round in which others run the model over a batch and it has none: lookups
// of rows that other ranks hold are collective, and every rank takes part in each.
void take_part(const Context& context, Model& model) {
  const ModelBatch* const nothing = nullptr;
  model.lookup_shards(context, {&nothing, 1}, Phase::kEval);
}

enum RoundFlag : uint8_t { kHasBatch = 1, kInterrupted = 2 };

// Flags that any rank has.
uint8_t flags_of_ranks(Communicator& ranks, uint8_t mine) {
  std::vector<uint8_t> all(static_cast<size_t>(ranks.size()));
  ranks.gather_all(Context{}, {&mine, 1}, {all.data(), all.size()});
  for (const uint8_t flags : all) mine |= flags;
  return mine;
}

}  // namespace

std::optional<PredictionPass> for_each_prediction(const Context& context, Model& model,
                                                  const config::PipelineConfig& config,
                                                  const FeatureLayout& layout,
                                                  const LoaderOptions& options,
                                                  const std::string& title,
                                                  const TakePredictions& take) {
  PredictionStream stream(context, model, config, layout, options);
  Progress progress(title, stream.expected_rows());
  progress.update(0);
  model.take_lookup_counts(context);  // of passes before this one
  PredictionPass pass;
  while (stream.next()) {
    if (interrupted()) return std::nullopt;
    stream.predict(take, pass);
    progress.set_total(stream.expected_rows());
    progress.update(pass.rows + pass.bad_rows);
  }
  finish(context, model, pass);
  progress.set_total(stream.expected_rows());
  progress.finish();
  return pass;
}

std::optional<PredictionPass> for_each_shard_prediction(
    const Context& context, Model& model, const config::PipelineConfig& config,
    const FeatureLayout& layout, const LoaderOptions& options, const std::string& title,
    const World& world, const TakeShardPredictions& take,
    const std::function<void()>& after_round) {
  std::optional<Progress> progress;
  if (world.rank() == 0) progress.emplace(title, 0).update(0);
  model.take_lookup_counts(context);  // of passes before this one
  PredictionPass pass;
  LoaderOptions of_stream = options;
  of_stream.streams = world.shards;
  for (int64_t slot = 0; slot < world.slots(); ++slot) {
    std::optional<PredictionStream> stream;
    of_stream.stream = world.first_shard() + slot;
    if (slot < world.own_shards()) stream.emplace(context, model, config, layout, of_stream);
    const auto take_batch = [&](const Batch& batch, const std::vector<View<const float>>& logits) {
      take(static_cast<size_t>(slot), batch, logits);
    };
    const int64_t rows_before = pass.rows + pass.bad_rows;
    while (true) {
      if (stream && !stream->next()) stream.reset();
      const auto mine =
          static_cast<uint8_t>((stream ? kHasBatch : 0) | (interrupted() ? kInterrupted : 0));
      const uint8_t flags = flags_of_ranks(*world.ranks, mine);
      if ((flags & kInterrupted) != 0) return std::nullopt;
      if ((flags & kHasBatch) == 0) break;
      if (stream)
        stream->predict(take_batch, pass);
      else
        take_part(context, model);
      if (after_round) after_round();
      if (!progress || !stream) continue;
      // About: other ranks are as far as this one.
      progress->set_total(world.size() *
                          (rows_before + stream->expected_rows() * (world.own_shards() - slot)));
      progress->update(world.size() * (pass.rows + pass.bad_rows));
    }
  }
  finish(context, model, pass);
  int64_t rows = pass.rows + pass.bad_rows;
  sum_all(Context{}, *world.ranks, std::span(&rows, 1));
  if (progress) {
    progress->set_total(rows);
    progress->update(rows);
    progress->finish();
  }
  return pass;
}

}  // namespace emblem
