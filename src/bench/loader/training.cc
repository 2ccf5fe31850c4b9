#include "bench/loader/training.h"

#include <algorithm>
#include <chrono>

#include "emblem/error.h"
#include "model/feed.h"
#include "train/batch_stream.h"
#include "train/learner.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTurns = 3;        // with and without the loader, each
constexpr size_t kResident = 8;  // different batches in memory
constexpr int kWarmUp = 3;       // steps

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Stretch {
  double rows = 0, seconds = 0;
};

// Steps for `seconds` or longer, at least one.
void train_for(double seconds, Learner& learner, BatchStream& batches, Stretch& stretch) {
  const auto start = Clock::now();
  do {
    if (!batches.next()) break;
    learner.step(batches.batch(), 0, [&] { return batches.look_ahead(); });
    stretch.rows += static_cast<double>(batches.batch().rows);
  } while (seconds_since(start) < seconds);
  learner.context().synchronize();
  stretch.seconds += seconds_since(start);
}

double bytes_of(const Batch& batch) {
  size_t bytes = 4 * (batch.dense.size() + batch.labels.size() + batch.sample_weights.size());
  for (const SparseColumn& column : batch.sparse)
    bytes += 8 * column.keys.size() + 4 * (column.offsets.size() + column.weights.size());
  for (const SequenceColumn& sequence : batch.sequences)
    bytes += 4 * (sequence.offsets.size() + sequence.numbers.size());
  return static_cast<double>(bytes);
}

double measure_batch_copies(const Context& context, const std::vector<Batch>& batches) {
  Feed feed(context);
  double bytes = 0;
  const auto start = Clock::now();
  for (int turn = 0; turn < kTurns; ++turn)
    for (const Batch& batch : batches) {
      feed.set(batch);
      context.synchronize();
      bytes += bytes_of(batch);
    }
  return bytes / seconds_since(start);
}

}  // namespace

double LoadedTraining::idle_share() const {
  return resident_rate > 0 ? std::max(0.0, 1 - loaded_rate / resident_rate) : 0;
}

LoadedTraining train_with_loader(const Context& context, const config::PipelineConfig& config,
                                 const FeatureLayout& layout, const LoaderSetting& setting,
                                 double seconds) {
  LoaderOptions options = setting.loading;
  options.epochs = 0;
  const auto memory = batch_memory(context);
  options.memory = memory.get();
  Learner learner(context, config, layout, options.batch_size);
  std::vector<Batch> resident(kResident);
  {
    Loader loader(setting.data, layout, options);
    for (Batch& batch : resident)
      EMBLEM_REQUIRE(loader.next(batch), "bench loader: no rows in ", options.input);
  }
  size_t at = 0;
  BatchStream from_memory(context, [&] { return &resident[at++ % resident.size()]; });
  Stretch warm_up;
  for (int step = 0; step < kWarmUp; ++step) train_for(0, learner, from_memory, warm_up);

  LoadedTraining found;
  if (context.device != Device::kCpu)
    found.copy_bytes_per_second = measure_batch_copies(context, resident);
  const double stretch = seconds / (2 * kTurns);
  Stretch with, without;
  for (int turn = 0; turn < kTurns; ++turn) {
    train_for(stretch, learner, from_memory, without);
    // Destroyed after its turn, so that it takes no CPU time from the other.
    Loader loader(setting.data, layout, options);
    BatchStream from_files(context, batches_of(loader));
    Stretch first;
    train_for(0, learner, from_files, first);
    train_for(stretch, learner, from_files, with);
  }
  found.loaded_rate = with.rows / with.seconds;
  found.resident_rate = without.rows / without.seconds;
  return found;
}

}  // namespace emblem
