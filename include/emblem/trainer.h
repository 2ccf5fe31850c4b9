// emblem/trainer.h - a training run that its caller steps.
//
//   Trainer trainer(pipeline, Data::files("train.parquet"), {}, {.model_dir = "model"});
//   while (trainer.step()) {}
//   const TrainingResult result = trainer.close();
//   Model model(result.checkpoint);
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "emblem/api.h"
#include "emblem/data.h"
#include "emblem/model.h"
#include "emblem/pipeline.h"

namespace emblem {
EMBLEM_PUBLIC {
  struct StepInfo {
    int64_t step = 0, epoch = 0;
    int64_t rows = 0, expected_rows = 0;  // learned so far, and in all (0: not known)
    bool is_due = false;                  // one of every log_step_count_steps, or the last
    double loss = 0;
    double samples_per_second = 0;          // where it is due
    std::map<std::string, double> metrics;  // train_metrics
  };

  struct EvaluationInfo {
    int64_t step = 0, epoch = 0;
    Evaluation evaluation;
  };

  struct TrainingOptions {
    std::string model_dir;  // empty: the pipeline's
    bool resume = false;    // continue its latest checkpoint; false: it must hold none
    std::string init_from;  // a checkpoint to begin with; empty: none
    std::string device = "cpu";
    int threads = 0;        // compute threads; 0: one per CPU
    std::string precision;  // "fp32", "bf16", "fp16"; empty: as the pipeline says
    int64_t max_steps = 0;  // 0: as the pipeline says

    // The launcher whose environment variables say which rank this process is: "torchrun" (RANK,
    // WORLD_SIZE, MASTER_ADDR, MASTER_PORT, which `emblem launch` sets as well), "openmpi",
    // "mpich", "slurm", or "" for the first that are set. "none": it trains alone. All ranks give
    // the same pipeline, data and options, and call the same functions; model_dir is in a file
    // system that they share. The callbacks on_step, on_evaluation and on_checkpoint are called on
    // rank 0.
    std::string ranks_from = "none";

    // Called by the thread that steps. What they throw ends the run, and is thrown by step().
    std::function<void(const StepInfo&)> on_step;
    std::function<void(const EvaluationInfo&)> on_evaluation;
    std::function<void(const std::string& checkpoint)> on_checkpoint;
    std::function<void(const std::string& text)> on_warning;
    // While an evaluation runs: rows so far and rows in all (0: not known).
    std::function<void(int64_t rows, int64_t expected_rows)> on_evaluating;
    // Computed by every evaluation; early stopping may watch them, with its higher_is_better set.
    // The constructor tries them on a batch first. For one process alone.
    OwnMetrics own_metrics;
    std::function<bool()> is_cancelled;  // true ends the run; close() then saves a checkpoint
  };

  struct TrainingResult {
    std::string outcome;             // "finished", "stopped early", "interrupted"
    int64_t steps = 0;               // in all, those before a resume included
    int64_t rows = 0, bad_rows = 0;  // rows of this run
    double seconds = 0;
    std::string checkpoint;  // the last one
    // With the weights at the end; without metrics where nothing was evaluated.
    Evaluation evaluation;
    int rank = 0, ranks = 1;
  };

  // Used by one thread. After a function has thrown only the destructor may be called; what was
  // learned before has been saved where the data were the reason.
  class EMBLEM_API Trainer {
   public:
    // `train` and `valid` take the place of the pipeline's train_input_path and eval_input_path
    // where they have rows. Opens and checks everything that the run needs; nothing is written
    // before.
    Trainer(const Pipeline& pipeline, const Data& train = {}, const Data& valid = {},
            const TrainingOptions& options = {});
    ~Trainer();
    Trainer(Trainer&&) noexcept;
    Trainer& operator=(Trainer&&) noexcept;

    // Learns the next batch, and does what is due after it. False at the end.
    bool step();
    // Evaluates the weights as they are.
    Evaluation evaluate();
    // Writes a checkpoint of the present step, unless there is one. Its folder.
    std::string save();
    // Ends the run: restores the best weights, saves and evaluates as the pipeline says. Once.
    TrainingResult close();

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

}  // namespace api
}  // namespace emblem
