// train/run/trainer.h - a training run, step by step: batches, evaluations and checkpoints until
// there is a reason to stop.
#pragma once

#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <string>

#include "checkpoint/model_dir_lock.h"
#include "config/feature/features.h"
#include "config/proto/pipeline.pb.h"
#include "core/device/context.h"
#include "train/learner/learner.h"
#include "train/predict/evaluator.h"
#include "train/report/run_clock.h"
#include "train/run/intervals.h"
#include "train/run/shard_batches.h"
#include "train/run/step_watch.h"
#include "train/run/train_options.h"
#include "train/state/checkpoint_keeper.h"
#include "train/state/run_state.h"

namespace emblem {

// All ranks of a world make one and call its functions together. It reports through the callbacks
// of its options, ends early when their token is cancelled, and prints nothing but lines of the
// log. After a function has thrown, only the destructor may be called; where the data were the
// reason, what was learned before has been saved. Used by one thread.
class Trainer {
 public:
  // Opens a run as `config`, which has passed check_pipeline, says: checks that everything that it
  // will need is there, takes config.model_dir(), which is locked until the end, and loads the
  // checkpoint that it begins with. Nothing is written before everything is checked and loaded.
  Trainer(const Context& context, const config::PipelineConfig& config,
          const TrainOptions& options);

  // Learns the next batch of the data, and does what is due after it: a checkpoint, an evaluation,
  // a delta. False when there is none: at the end of the data, of the number of steps, when a
  // metric says so, and when the run was cancelled.
  bool step();
  // The same with a batch that was made for layout() (TrainBatches::kGiven). It is not needed any
  // more when it returns.
  bool step(const Batch& batch);

  // Evaluates the present weights on the evaluation data. Nothing when it was cancelled.
  std::optional<Evaluation> evaluate();

  // Writes a checkpoint of the present step, unless there is one. Its path.
  std::string save();

  // Ends the run: restores the best weights, saves and evaluates as the configuration says. Called
  // once, and nothing after it.
  TrainSummary close();

  const config::PipelineConfig& config() const { return config_; }
  const FeatureLayout& layout() const { return layout_; }
  const World& world() const { return options_.world; }
  int64_t steps() const { return learner_.steps(); }  // in all, those before a resume included
  // Rows that the run will have learned at its end, about; 0: not known.
  int64_t expected_rows() const;

 private:
  std::unique_ptr<ModelDirLock> lock_model_dir() const;
  std::optional<std::string> find_resumed() const;
  void load();
  void remember_input_files();
  void open_files();
  LoaderOptions loader_options() const;
  // Calls body(). What it throws ends the run.
  template <class Body>
  auto guarded(Body&& body);
  void save_after(const Error& error);

  void learn(const StepBatches& step);
  void after_step(const StepEnd& end);
  void wait_idle();
  void report_step(bool is_due);
  void report(const ProgressiveValidation::Window& window);
  void warn(const std::string& text) const;
  void report_saved();

  bool evaluate_now();
  void evaluate_due();
  void observe_evaluation();

  void end_steps();
  void finish();
  bool restore_best();
  std::string problem_of(const std::string& checkpoint) const;
  void check_skipped_steps() const;
  TrainSummary summary() const;

  const TrainOptions options_;
  const config::PipelineConfig config_;
  const config::TrainConfig& train_;
  const FeatureLayout layout_;
  std::unique_ptr<ModelDirLock> lock_;  // lock of the rank that writes, until it closes
  const std::optional<std::string> resumed_;
  const std::string init_from_;
  Learner learner_;
  std::shared_ptr<std::pmr::memory_resource> memory_;  // memory of batches
  const Intervals intervals_;
  EarlyStopping early_stopping_;
  StepWatch watch_;
  RunClock clock_;
  RunState state_;
  std::optional<ShardBatches> batches_;  // batches of the data, unless they are given
  std::optional<GivenBatches> given_;
  std::optional<Evaluator> evaluator_;
  std::optional<CheckpointKeeper> checkpoints_;

  std::optional<TrainOutcome> outcome_;  // why to stop, once there is a reason
  StepResult last_step_;
  std::map<std::string, double> window_;  // values of progressive validation not reported yet
  int64_t rows_ = 0, bad_rows_ = 0;
  int64_t first_step_ = 0;      // steps before this run
  int64_t reported_step_ = -1;  // the last step whose report was due
  int64_t stream_unix_ms_ = 0;  // the newest time of what was trained on
  double training_seconds_ = 0.0;
};

}  // namespace emblem
