#include "train/predict/prediction_pass.h"

#include <algorithm>

#include "comm/bytes.h"
#include "comm/sum_all.h"
#include "core/files/byte_io.h"
#include "train/learner/lookup_report.h"
#include "train/run/batch_stream.h"
#include "train/run/host_logits.h"

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

  // Predicts the current batch; adds to `pass`.
  void predict(size_t own_shard, const TakePredictions& take, PredictionPass& pass) {
    const Batch& batch = batches_.host();
    model_.forward(context_, batches_.batch(), Phase::kEval, 0);
    batches_.look_ahead();
    take(own_shard, batch, logits_.of(context_, model_, batch.rows));
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

// What a rank does in a round in which others run the model over a batch and it has none: lookups
// of rows that other ranks hold are collective, and every rank takes part in each.
void take_part(const Context& context, Model& model) {
  const ModelBatch* const nothing = nullptr;
  model.lookup_shards(context, {&nothing, 1}, Phase::kEval);
}

void write_pass(ByteWriter& bytes, const PredictionPass& pass) {
  bytes.add(pass.rows).add(pass.bad_rows).add(static_cast<uint64_t>(pass.lookups.size()));
  for (const FeatureLookups& one : pass.lookups)
    bytes.add_text(one.feature).add_text(one.table).add(one.counts.values).add(one.counts.missing);
}

// Reads what write_pass has written, and adds it to `sum`.
void read_pass(std::string_view from, PredictionPass& sum) {
  ByteReader bytes(from, "what a rank has predicted");
  int64_t rows = 0, bad_rows = 0;
  bytes.read(rows);
  bytes.read(bad_rows);
  sum.rows += rows;
  sum.bad_rows += bad_rows;
  std::vector<FeatureLookups> lookups(bytes.read_count(4 * sizeof(int64_t)));
  for (FeatureLookups& one : lookups) {
    one.feature = bytes.read_text();
    one.table = bytes.read_text();
    bytes.read(one.counts.values);
    bytes.read(one.counts.missing);
  }
  bytes.end();
  add_lookups(lookups, sum.lookups);
}

// Says that a pass that has begun has stopped, unless it came to its end.
class PassReport {
 public:
  explicit PassReport(std::function<void(const PassProgress&)> progress)
      : progress_(std::move(progress)) {}
  ~PassReport() {
    if (has_begun_) send(PassProgress::State::kStopped);
  }
  PassReport(const PassReport&) = delete;
  PassReport& operator=(const PassReport&) = delete;

  void update(int64_t rows, int64_t expected_rows) {
    has_begun_ = true;
    last_.rows = rows;
    last_.expected_rows = expected_rows;
    send(PassProgress::State::kRuns);
  }
  void end(int64_t rows) {
    last_.rows = last_.expected_rows = rows;
    send(PassProgress::State::kEnded);
    has_begun_ = false;
  }

 private:
  void send(PassProgress::State state) {
    last_.state = state;
    if (progress_) progress_(last_);
  }

  std::function<void(const PassProgress&)> progress_;
  PassProgress last_;
  bool has_begun_ = false;
};

enum RoundFlag : uint8_t { kHasBatch = 1, kCancelled = 2 };

// Flags that any rank has.
uint8_t flags_of_ranks(Communicator& ranks, uint8_t mine) {
  std::vector<uint8_t> all(static_cast<size_t>(ranks.size()));
  ranks.gather_all(Context{}, {&mine, 1}, {all.data(), all.size()});
  for (const uint8_t flags : all) mine |= flags;
  return mine;
}

}  // namespace

std::optional<PredictionPass> for_each_prediction(
    const Context& context, Model& model, const config::PipelineConfig& config,
    const FeatureLayout& layout, const LoaderOptions& options, const World& world,
    const PassWatch& watch, const TakePredictions& take, const std::function<void()>& after_round) {
  model.take_lookup_counts(context);  // counts of passes before this one
  PassReport report(world.writes() ? watch.progress : nullptr);
  PredictionPass pass;
  LoaderOptions of_stream = options;
  of_stream.streams = world.shards;
  for (int64_t slot = 0; slot < world.slots(); ++slot) {
    std::optional<PredictionStream> stream;
    of_stream.stream = world.first_shard() + slot;
    if (slot < world.own_shards()) stream.emplace(context, model, config, layout, of_stream);
    const int64_t rows_before = pass.rows + pass.bad_rows;
    const auto expected_rows = [&] {  // about: other ranks are as far as this one
      return world.size() * (rows_before + stream->expected_rows() * (world.own_shards() - slot));
    };
    if (stream) report.update(world.size() * rows_before, expected_rows());
    while (true) {
      if (stream && !stream->next()) stream.reset();
      const auto mine = static_cast<uint8_t>((stream ? kHasBatch : 0) |
                                             (watch.cancel.is_cancelled() ? kCancelled : 0));
      const uint8_t flags = flags_of_ranks(*world.ranks, mine);
      if ((flags & kCancelled) != 0) return std::nullopt;
      if ((flags & kHasBatch) == 0) break;
      if (stream)
        stream->predict(static_cast<size_t>(slot), take, pass);
      else
        take_part(context, model);
      if (after_round) after_round();
      if (stream) report.update(world.size() * (pass.rows + pass.bad_rows), expected_rows());
    }
  }
  model.check(context);
  pass.lookups = model.take_lookup_counts(context);
  int64_t rows = pass.rows + pass.bad_rows;
  sum_all(Context{}, *world.ranks, std::span(&rows, 1));
  report.end(rows);
  return pass;
}

PredictionPass sum_passes(const World& world, const PredictionPass& mine,
                          const LoaderOptions& options) {
  ByteWriter own, all;
  write_pass(own, mine);
  PredictionPass sum, received;
  for (const std::string& of_rank : gather_bytes(*world.ranks, own.bytes()))
    read_pass(of_rank, sum);
  write_pass(all, sum);
  std::string result = std::move(all).bytes();
  broadcast_bytes(*world.ranks, result);
  read_pass(result, received);
  if (received.bad_rows > options.max_bad_rows)
    throw CommonError(ErrorCode::kCorruption,
                      cat(received.bad_rows, " rows cannot be read in ", options.input,
                          ", data_config.max_bad_rows allows ", options.max_bad_rows));
  return received;
}

}  // namespace emblem
