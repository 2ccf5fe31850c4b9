#include "train/state/resume_check.h"

#include <algorithm>
#include <span>
#include <vector>

#include "config/check/semantics.h"
#include "config/load/assets.h"
#include "config/load/differences.h"
#include "config/load/load.h"
#include "core/system/log.h"
#include "data/source/remote_storage.h"
#include "emblem/error.h"
#include "kafka/address.h"
#include "train/state/run_state.h"

namespace emblem {
namespace {

constexpr size_t kMostShown = 5;
constexpr const char* kInput = "train_input_path";

// What evaluations measure.
constexpr std::string_view kMeasured[] = {"eval_input_path",
                                          "eval_config",
                                          "export_config",
                                          "model_config.metrics",
                                          "model_config.train_metrics",
                                          "model_config.mmoe.task_towers.metrics",
                                          "model_config.mmoe.task_towers.train_metrics",
                                          "model_config.ple.task_towers.metrics",
                                          "model_config.ple.task_towers.train_metrics",
                                          "model_config.dbmtl.task_towers.metrics",
                                          "model_config.dbmtl.task_towers.train_metrics",
                                          "model_config.pepnet.task_towers.metrics",
                                          "model_config.pepnet.task_towers.train_metrics"};

// Besides kMeasured: a resumed run learns the same whatever these say.
constexpr std::string_view kFreeToResume[] = {
    // where, and how much of it is shown and kept
    "model_dir", "train_config.log_step_count_steps", "train_config.use_tensorboard",
    "train_config.save_checkpoints_steps", "train_config.save_checkpoints_epochs",
    "train_config.save_checkpoints_timestamp_interval", "train_config.progressive_eval_rows",
    "train_config.keep_checkpoint_max", "train_config.delta_steps", "train_config.keep_delta_max",
    // how long
    "train_config.num_steps", "train_config.num_epochs", "train_config.early_stopping",
    // evaluations
    "train_config.eval_steps", "train_config.eval_epochs", "data_config.eval_batch_size",
    "train_config.fine_tune_checkpoint",
    // how fast, and on what
    "train_config.num_threads", "train_config.device_bytes", "data_config.num_workers",
    "data_config.prefetch_batches", "data_config.direct_reads", "data_config.cache_dir",
    "data_config.cache_bytes", "data_config.download_threads", "data_config.part_bytes",
    "data_config.endpoint",
    // accepted without effect
    "data_config.pin_memory",
    // placement of rows; shards of a batch, which positions_of() compares
    "train_config.plan_path", "train_config.logical_shards", "train_config.exchange_precision",
    "train_config.dedup_per_host",
    // as they are in the data, or in the checkpoint
    "data_config.column_types",
    // how many bad rows to skip: the run has not met more than it allowed so far
    "data_config.max_bad_rows"};

// Besides kMeasured: what a trained model computes does not depend on these.
constexpr std::string_view kFreeToPredict[] = {"model_dir",         "train_input_path",
                                               "train_config",      "data_config",
                                               "semantics_version", "model_config.losses"};

std::vector<FieldDifference> changes(config::PipelineConfig before, config::PipelineConfig now,
                                     std::span<const std::string_view> free) {
  take_assets(&before);  // files are compared by content, wherever they are
  take_assets(&now);
  std::vector<std::string_view> ignored(std::begin(kMeasured), std::end(kMeasured));
  ignored.insert(ignored.end(), free.begin(), free.end());
  return differences(before, now, ignored);
}

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
  before.set_train_input_path(absolute_inputs(before.train_input_path()));
  config::PipelineConfig now = config;
  record_semantics(&now);
  // The position is one of the topic, whatever else its address says.
  if (is_same_kafka_topic(before.train_input_path(), now.train_input_path()))
    before.set_train_input_path(now.train_input_path());
  const auto found = changes(before, now, kFreeToResume);
  if (found.empty()) return;
  throw Error(ErrorCode::kInvalidArgument,
              cat("cannot resume ", checkpoint, " with other settings: ", list(found),
                  "; use the same values, or begin a new run with its weights: --init-from ",
                  checkpoint, " and another --model-dir"));
}

void warn_of_changes(const std::string& checkpoint, const config::PipelineConfig& config) {
  const auto found = changes(load_stored_pipeline(checkpoint), config, kFreeToPredict);
  if (found.empty()) return;
  log_warn(cat(checkpoint, " was trained with other settings, results may be wrong: ", list(found),
               "; omit --config and --set to use its own"));
}

}  // namespace emblem
