// train/trainer_run.h - the state and steps of one training run. Internal to train/trainer.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/model_dir_lock.h"
#include "core/progress.h"
#include "data/loader/loader.h"
#include "train/batch_stream.h"
#include "train/checkpoint_keeper.h"
#include "train/evaluator.h"
#include "train/host_logits.h"
#include "train/intervals.h"
#include "train/lookup_report.h"
#include "train/loss_watch.h"
#include "train/progressive.h"
#include "train/run_clock.h"
#include "train/run_log.h"
#include "train/run_setup.h"
#include "train/stream_watch.h"
#include "train/train_metrics.h"
#include "train/trainer.h"

namespace emblem {

class Trainer {
 public:
  // A stream that has had no rows for this long is idle.
  static constexpr std::chrono::milliseconds kStreamWait{100};

  Trainer(const Context& context, const config::PipelineConfig& config,
          const TrainOptions& options);

  TrainSummary run();

 private:
  // Whether this process writes files and reports: the only one, or rank 0.
  bool writes() const { return options_.world == nullptr || options_.world->rank() == 0; }
  std::unique_ptr<ModelDirLock> lock_model_dir() const;
  std::optional<std::string> find_resumed() const;
  void load();
  void open_files();
  LoaderOptions loader_options() const;

  static int64_t unix_ms_now();
  void train_all_batches();
  // On several ranks.
  struct ShardWord {         // what all ranks know of a shard's next batch
    int64_t rows = 0;        // 0: there is none
    int64_t epoch = 0;       // of the batch
    int64_t next_epoch = 0;  // of the one after it
    int64_t unix_ms = 0;     // Batch::unix_ms
    int64_t has_ended = 0;   // its data
    int64_t interrupted = 0;
    int64_t lag_messages = 0;
    double lag_seconds = 0.0;
  };
  void train_all_batches_of_ranks();
  std::vector<ShardWord> next_batches();
  ShardWord describe_batch(size_t shard);
  void step_of_ranks(const std::vector<ShardWord>& words);
  void open_streams();
  void sum_over_ranks();
  // On several ranks, from a topic.
  struct StreamWord;
  std::vector<ShardWord> wait_for_batches();
  std::vector<StreamWord> look_at_streams(std::chrono::milliseconds timeout);
  std::vector<ShardWord> take_batches();
  void watch_problems(const std::vector<StreamWord>& words);
  void wait_idle(std::chrono::milliseconds waited);
  void report_idle_ranks() const;
  void validate_shards(std::span<const ModelBatch* const> shards, int64_t rows);

  bool is_stream() const { return stream_watch_.has_value(); }
  bool wait_for_batch();
  void train_one(BatchStream& batches);
  void log_step();
  void show_progress();
  std::map<std::string, double> last_losses();
  StreamLag stream_lag() const;
  std::map<std::string, double> lag_values() const;
  void validate(const ModelBatch& batch, const Batch& host);
  void report(const ProgressiveValidation::Window& window);
  std::string step_text();
  void after_step(const StepEnd& end);
  void save_after(const Error& error);
  void count_lookups();

  bool evaluate_now();
  void evaluate_due();
  void observe_evaluation();

  void finish();
  bool restore_best();
  std::string problem_of(const std::string& checkpoint) const;
  void check_skipped_steps() const;
  TrainSummary summary() const;

  const config::PipelineConfig config_;
  const config::TrainConfig& train_;
  const TrainOptions options_;
  const FeatureLayout layout_;
  const std::unique_ptr<ModelDirLock> lock_;  // of who writes
  const std::optional<std::string> resumed_;
  const std::string init_from_;
  Learner learner_;
  std::shared_ptr<std::pmr::memory_resource> memory_;  // of batches
  const Intervals intervals_;
  EarlyStopping early_stopping_;
  LossWatch loss_watch_;
  TrainMetrics train_metrics_;
  ProgressiveValidation progressive_;
  std::optional<StreamWatch> stream_watch_;  // of a topic
  HostLogits logits_;
  RunClock clock_;
  RunState state_;
  std::optional<Loader> loader_;                        // without ranks
  std::vector<std::unique_ptr<Loader>> shard_loaders_;  // on several ranks: of own shards
  std::vector<std::unique_ptr<BatchStream>> shard_streams_;
  std::vector<bool> shard_has_batch_;
  std::vector<bool> shard_has_ended_;   // of a topic
  std::vector<bool> shard_is_cut_off_;  // of a topic, of all shards: it cannot be read
  StreamLag rank_lag_;                  // of a topic, of all ranks
  std::optional<RunLog> log_;           // of who writes
  std::optional<Evaluator> evaluator_;
  std::optional<CheckpointKeeper> checkpoints_;
  std::optional<Progress> progress_;

  std::optional<TrainOutcome> outcome_;  // why to stop, once there is a reason
  StepResult last_step_;
  std::map<std::string, double> window_;  // of progressive validation that was not logged yet
  std::vector<FeatureLookups> lookups_;   // of training
  int64_t rows_ = 0, bad_rows_ = 0;
  int64_t first_step_ = 0;      // before this run
  int64_t stream_unix_ms_ = 0;  // the newest time of what was trained on
  double training_seconds_ = 0.0;
};

}  // namespace emblem
