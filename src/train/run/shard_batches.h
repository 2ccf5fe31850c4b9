// train/run/shard_batches.h - the batches that all ranks learn in a step, one of each shard: read
// from the data, or given by the caller.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "config/feature/features.h"
#include "config/proto/pipeline.pb.h"
#include "core/system/cancel_token.h"
#include "data/loader/loader.h"
#include "train/report/run_clock.h"
#include "train/report/stream_watch.h"
#include "train/run/batch_stream.h"
#include "train/run/intervals.h"
#include "train/run/world.h"

namespace emblem {

// What a step learns.
struct StepBatches {
  std::vector<const ModelBatch*> shards;  // batches of this rank's shards; null: without rows
  std::vector<const Batch*> hosts;        // the same in host memory
  std::vector<int64_t> rows;              // rows of every shard of all ranks
  int64_t all_rows = 0;
  int64_t epoch = 0;  // epoch of the shard that is furthest behind
  StepEnd end;
};

// Every rank has a loader for each of its shards, and all decide alike. Used by one thread.
//
// Ranks divide the partitions of a topic. While a rank waits for messages it says so to the others
// again and again: all of them begin a step, write a delta or stop together, and none waits in a
// collective for long.
class ShardBatches {
 public:
  // `options` are those of every shard; `start`: where each of this rank's shards begins.
  // `clock` outlives it. Collective.
  ShardBatches(const Context& context, const config::PipelineConfig& config,
               const FeatureLayout& layout, const World& world, LoaderOptions options,
               const std::vector<DataPosition>& start, RunClock& clock, CancelToken cancel);

  // Moves on to the next step; null at the end of the data, and when a rank was cancelled. What
  // it returns stays until the next call. `idle` is called by all ranks again and again while a
  // topic has had no rows for long. Collective.
  const StepBatches* next(const std::function<void()>& idle);
  bool was_cancelled() const { return was_cancelled_; }
  bool has_ended() const { return has_ended_; }  // the data

  // What the step after this one will learn of this rank's shards, as far as it is known.
  std::vector<const ModelBatch*> look_ahead();

  bool is_stream() const { return watch_.has_value(); }
  // Called in `idle` by a run that has had no rows yet.
  void wait_for_first();
  StreamLag lag() const { return lag_; }  // lag over all ranks

  // Where each of this rank's shards continues after the last step.
  const std::vector<DataPosition>& positions() const { return positions_; }
  int64_t expected_rows() const;  // rows of all shards, about; 0: not known yet
  int64_t bad_rows() const;       // bad rows of this rank's shards

 private:
  // What all ranks know of a shard's next batch.
  struct BatchStatus {
    int64_t rows = 0;        // 0: there is none
    int64_t epoch = 0;       // epoch of the batch
    int64_t next_epoch = 0;  // epoch of the batch after it
    int64_t unix_ms = 0;     // Batch::unix_ms
    int64_t has_ended = 0;   // its data
    int64_t cancelled = 0;
    int64_t lag_messages = 0;
    double lag_seconds = 0.0;
  };
  // What all ranks know of a shard while they wait.
  struct WaitStatus {
    uint8_t is_ready = 0;    // there is a full batch, its oldest row has waited long enough, or the
                             // end
    uint8_t is_cut_off = 0;  // its partitions cannot be read at the moment
    uint8_t cancelled = 0;
  };
  struct Shard {
    std::unique_ptr<Loader> loader;
    std::unique_ptr<BatchStream> batches;
    bool has_batch = true;   // in this step
    bool has_ended = false;  // its data
  };

  BatchStatus status_of(size_t shard);
  std::vector<BatchStatus> take_from_files();
  std::vector<BatchStatus> take_from_stream();
  std::vector<BatchStatus> wait_for_stream(const std::function<void()>& idle);
  std::vector<WaitStatus> look_at_streams(std::chrono::milliseconds timeout);
  void watch_problems(const std::vector<WaitStatus>& shards);
  void report_idle_ranks(const std::string& topic) const;
  void set_step(const std::vector<BatchStatus>& shards);

  const World world_;
  RunClock& clock_;
  const CancelToken cancel_;
  std::optional<StreamWatch> watch_;  // watch of a topic
  int64_t steps_left_;                // -1: no limit
  std::vector<Shard> shards_;
  std::vector<DataPosition> positions_;
  std::vector<bool> is_cut_off_;  // by shard of all ranks: a topic cannot be read there
  StreamLag lag_;
  bool was_cancelled_ = false, has_ended_ = false;
  StepBatches step_;
};

// Batches that a caller gives: each rank gives that of its only shard. Used by one thread.
class GivenBatches {
 public:
  GivenBatches(const Context& context, const World& world);

  // The step of a batch, which stays until the next call; null where no rank has rows, and where
  // one of them is cancelled. Collective.
  const StepBatches* take(const Batch& batch, bool is_cancelled);
  bool was_cancelled() const { return was_cancelled_; }

 private:
  const World world_;
  const Batch* given_ = nullptr;
  BatchStream batches_;
  bool was_cancelled_ = false;
  StepBatches step_;
};

}  // namespace emblem
