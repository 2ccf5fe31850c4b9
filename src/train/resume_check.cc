#include "train/resume_check.h"

#include "config/differences.h"
#include "config/load.h"
#include "config/semantics.h"
#include "core/file.h"
#include "emblem/error.h"
#include "train/run_state.h"

namespace emblem {
namespace {

constexpr size_t kMostShown = 5;
constexpr const char* kInput = "train_input_path";

// A resumed run learns the same whatever these say.
constexpr std::string_view kFree[] = {
    // where, and how much of it is shown and kept
    "model_dir", "train_config.log_step_count_steps", "train_config.use_tensorboard",
    "train_config.save_checkpoints_steps", "train_config.save_checkpoints_epochs",
    "train_config.keep_checkpoint_max", "train_config.delta_steps", "train_config.keep_delta_max",
    // how long
    "train_config.num_steps", "train_config.num_epochs", "train_config.early_stopping",
    // evaluations
    "eval_input_path", "eval_config", "train_config.eval_steps", "train_config.eval_epochs",
    "data_config.eval_batch_size", "model_config.metrics", "model_config.train_metrics",
    "train_config.fine_tune_checkpoint", "export_config",
    // how fast, and on what
    "train_config.num_threads", "train_config.device_bytes", "data_config.num_workers",
    "data_config.prefetch_batches", "data_config.direct_reads",
    // accepted without effect
    "data_config.pin_memory",
    // how many bad rows to skip: the run has not met more than it allowed so far
    "data_config.max_bad_rows"};

std::string list(const std::vector<FieldDifference>& found) {
  std::string text;
  for (size_t i = 0; i < std::min(found.size(), kMostShown); ++i) {
    text +=
        cat(i == 0 ? "" : ", ", found[i].path, " is ", found[i].second, ", was ", found[i].first);
    if (found[i].path == kInput) text += " (its position in the data would be meaningless)";
  }
  if (found.size() > kMostShown) text += cat(", and ", found.size() - kMostShown, " more");
  return text;
}

}  // namespace

void check_resume(const std::string& checkpoint, const config::PipelineConfig& config) {
  config::PipelineConfig before = load_stored_pipeline(checkpoint);
  before.set_train_input_path(absolute_paths(before.train_input_path()));
  config::PipelineConfig now = config;
  record_semantics(&now);
  const auto found = differences(before, now, kFree);
  if (found.empty()) return;
  throw Error(ErrorCode::kInvalidArgument,
              cat("cannot resume ", checkpoint, " with other settings: ", list(found),
                  "; use the same values, or begin a new run with its weights: --init-from ",
                  checkpoint, " and another --model-dir"));
}

}  // namespace emblem
