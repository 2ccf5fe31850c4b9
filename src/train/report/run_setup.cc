#include "train/report/run_setup.h"

#include <algorithm>

#include "checkpoint/checkpoint.h"
#include "config/check/semantics.h"
#include "config/feature/items.h"
#include "config/feature/metrics.h"
#include "config/load/evaluation_input.h"
#include "config/load/load.h"
#include "config/load/prediction_layout.h"
#include "core/system/log.h"
#include "data/feature/column_requests.h"
#include "data/feature/column_types.h"
#include "data/format/columnar/declared_type.h"
#include "data/format/local_input.h"
#include "data/source/remote_storage.h"
#include "optim/schedule.h"
#include "train/report/train_metrics.h"
#include "train/run/world.h"
#include "train/state/resume_check.h"
#include "train/state/run_state.h"

namespace emblem {
namespace {

void check_goal(const config::PipelineConfig& config, const std::vector<HeadSpec>& heads,
                const StopAt& goal) {
  EMBLEM_REQUIRE(!evaluation_input(config).empty(), goal.option,
                 " needs evaluations, but there is nothing to evaluate on; set eval_input_path or "
                 "data_config.holdout_ratio");
  require_watchable_metric(heads, goal.metric, "the metric of " + goal.option);
}

// Options of a loader that is there to look at the data.
LoaderOptions without_batches(LoaderOptions options) {
  options.max_batches = 0;
  options.workers = 1;
  options.prefetch_batches = 1;
  return options;
}

// Opens the data, which must be there and fit the features.
void check_input(const config::PipelineConfig& config, const FeatureLayout& layout,
                 const LoaderOptions& options) {
  const Loader opened(config.data_config(), layout, without_batches(options));
}

// The same of the training data, with what its columns are.
ColumnFacts look_at_input(const config::PipelineConfig& config, const FeatureLayout& layout,
                          LoaderOptions options) {
  options.shuffle = false;
  const Loader opened(config.data_config(), layout, without_batches(options));
  ColumnFacts facts;
  facts.columns = opened.columns();
  const bool has_text = std::any_of(facts.columns.begin(), facts.columns.end(),
                                    [](const auto& one) { return one.type == ColumnType::kText; });
  if (has_text) opened.sample([&](const Block& block) { facts.add(block); });
  return facts;
}

void warn_of_types(const FeatureLayout& layout, const LoaderOptions& options,
                   const ColumnFacts& facts, const config::DataConfig& data) {
  if (data.input_fields().empty()) return;
  if (!reads_as_requested(data.dataset_type()))
    log_warn(cat("data_config.input_fields has no effect: names and types of the columns of ",
                 config::DatasetType_Name(data.dataset_type()), " are fixed; remove it"));
  else
    warn_of_declared_types(columns_needed(data, layout, options.label_check), facts.columns,
                           options.input);
}

void record_types(const FeatureLayout& layout, const LoaderOptions& options,
                  const ColumnFacts& facts, config::DataConfig* data) {
  warn_of_types(layout, options, facts, *data);
  record_column_types(layout, options.label_check, facts, data);
  for (const std::string& column : columns_of_unknown_type(*data, layout))
    log_warn(cat("whether column ", in_quotes(column),
                 " has integers or text is known from messages alone; servers will read it as "
                 "text, and integers have other keys: if they are, add data_config { input_fields "
                 "{ input_name: ",
                 in_quotes(column), " input_type: INT64 } }"));
}

void check_dense_optimizer(const config::TrainConfig& train) {
  const config::DenseOptimizer& optimizer = train.dense_optimizer();
  make_schedule(optimizer);
  for (const config::PartOptimizer& part : optimizer.part_optimizers())
    make_schedule(optimizer, part);
  EMBLEM_REQUIRE(
      !optimizer.has_ema() || (optimizer.ema().decay() >= 0.0f && optimizer.ema().decay() <= 1.0f),
      "train_config.dense_optimizer.ema.decay is ", optimizer.ema().decay(),
      ", but must be in [0, 1]");
  EMBLEM_REQUIRE(
      train.gradient_accumulation_steps() <= 1 || !train.grad_clipping().enable_global_grad_clip(),
      "train_config.gradient_accumulation_steps is incompatible with "
      "grad_clipping.enable_global_grad_clip: rows are updated with every batch, dense "
      "weights are not; remove one of them");
}

void check_ranks(const config::PipelineConfig& config, const World& world) {
  EMBLEM_REQUIRE(world.shards >= world.size(), "train_config.logical_shards is ", world.shards,
                 ", but there are ", world.size(), " ranks; start at most as many as shards");
  if (world.plan != nullptr) check_plan_ranks(*world.plan, world.size());
  training_batch_size(config, world);
}

void check_average(const config::PipelineConfig& config) {
  EMBLEM_REQUIRE(config.train_config().dense_optimizer().has_ema() ||
                     evaluated_weights(config) == DenseWeights::kTrained,
                 "eval_config.use_dense_ema is true, but there is no train_config.dense_optimizer."
                 "ema; add ema {} to dense_optimizer");
}

}  // namespace

config::PipelineConfig with_absolute_paths(config::PipelineConfig config) {
  if (config.has_train_input_path())
    config.set_train_input_path(absolute_inputs(config.train_input_path()));
  if (config.has_eval_input_path())
    config.set_eval_input_path(absolute_inputs(config.eval_input_path()));
  if (config.data_config().has_negative_sampler()) {
    config::NegativeSampler& sampler = *config.mutable_data_config()->mutable_negative_sampler();
    sampler.set_input_path(absolute_inputs(sampler.input_path()));
  }
  if (config.data_config().has_tdm_sampler()) {
    config::TDMSampler& sampler = *config.mutable_data_config()->mutable_tdm_sampler();
    sampler.set_item_input_path(absolute_inputs(sampler.item_input_path()));
    sampler.set_edge_input_path(absolute_inputs(sampler.edge_input_path()));
    if (sampler.has_predict_edge_input_path())
      sampler.set_predict_edge_input_path(absolute_inputs(sampler.predict_edge_input_path()));
  }
  return config;
}

config::PipelineConfig check_run(config::PipelineConfig config, const TrainOptions& options) {
  EMBLEM_REQUIRE(!config.model_dir().empty(),
                 "no model_dir; set model_dir in the configuration or give --model-dir");
  const bool is_given = options.batches == TrainBatches::kGiven;
  EMBLEM_REQUIRE(is_given || !config.train_input_path().empty(),
                 "no data to train on; set train_input_path in the configuration");
  check_ranks(config, options.world);
  const FeatureLayout layout = training_layout(layout_of(config), config.model_config());
  const std::vector<HeadSpec> heads = heads_of(config, layout);
  require_watchable_metrics(heads, config.train_config());
  if (options.stop_at) check_goal(config, heads, *options.stop_at);
  make_schedule(config.train_config().sparse_optimizer());
  check_dense_optimizer(config.train_config());
  if (!is_given) {
    LoaderOptions training = training_loader_options(config);
    training.storage = options.storage;
    record_types(layout_of_rows(layout), training, look_at_input(config, layout, training),
                 config.mutable_data_config());
  }
  if (evaluation_input(config).empty()) return config;
  check_average(config);
  check_metrics(config, layout);
  const config::PipelineConfig evaluated = for_evaluation(config, options.storage);
  if (evaluated.data_config().dataset_type() != config.data_config().dataset_type())
    log_info(cat(config.eval_input_path(), " is read as ",
                 config::DatasetType_Name(evaluated.data_config().dataset_type())));
  LoaderOptions evaluating = evaluation_loader_options(config);
  evaluating.storage = options.storage;
  check_input(evaluated, layout, evaluating);
  return config;
}

int64_t training_batch_size(const config::PipelineConfig& config, const World& world) {
  const int64_t all = config.train_config().global_batch_size();
  if (all == 0) return training_loader_options(config).batch_size;
  const int64_t shards = world.shards;
  EMBLEM_REQUIRE(all % shards == 0, "train_config.global_batch_size is ", all,
                 ", which is not a multiple of ", shards, " shards; choose ",
                 (all + shards - 1) / shards * shards);
  return all / shards;
}

std::string checkpoint_to_begin_with(const config::PipelineConfig& config,
                                     const TrainOptions& options) {
  const std::string& path =
      options.init_from.empty() ? config.train_config().fine_tune_checkpoint() : options.init_from;
  if (!is_object_uri(path)) return path.empty() ? "" : find_checkpoint(path);
  return find_checkpoint(
      path, options.storage != nullptr ? options.storage : open_storage(config.data_config()));
}

void adopt_trained_semantics(const TrainOptions& options, config::PipelineConfig* config) {
  std::optional<std::string> checkpoint;
  const std::string initial = checkpoint_to_begin_with(*config, options);
  if (!initial.empty()) checkpoint = initial;
  if (options.model_dir == ModelDir::kResume && !config->model_dir().empty())
    if (auto latest = latest_checkpoint(config->model_dir(), Skipped::kIgnore))
      checkpoint = std::move(latest);
  if (!checkpoint) {
    if (config->data_config().column_types_size() > 0)
      log_warn(
          "data_config.column_types has no effect on a new training, which records the types "
          "of its own data; remove it");
    return config->mutable_data_config()->clear_column_types();
  }
  adopt_semantics(load_stored_pipeline(*checkpoint), *checkpoint, config);
  if (config->semantics_version() < kCurrentSemantics)
    log_info(cat(*checkpoint,
                 " was trained by an earlier Emblem; its features and layers keep their "
                 "meaning (semantics_version ",
                 config->semantics_version(), ")"));
}

config::PipelineConfig with_trained_semantics(config::PipelineConfig config,
                                              const TrainOptions& options) {
  if (!config.has_semantics_version()) adopt_trained_semantics(options, &config);
  return config;
}

std::optional<std::string> checkpoint_to_resume(const config::PipelineConfig& config,
                                                const TrainOptions& options) {
  const std::string& dir = config.model_dir();
  if (!holds_checkpoints(dir)) {
    if (options.model_dir == ModelDir::kResume)
      log_info(cat(dir, " holds no checkpoint yet; starting from the beginning"));
    return std::nullopt;
  }
  EMBLEM_REQUIRE(options.model_dir == ModelDir::kResume, list_checkpoints(dir).back().path,
                 " exists already; continue it with --resume, or give another --model-dir");
  const std::string checkpoint = find_checkpoint(dir);
  check_resume(checkpoint, config);
  return checkpoint;
}

}  // namespace emblem
