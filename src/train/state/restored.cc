#include "train/state/restored.h"

#include <limits>

#include "checkpoint/checkpoint.h"
#include "config/feature/items.h"
#include "config/feature/matching.h"
#include "config/feature/metrics.h"
#include "config/load/evaluation_input.h"
#include "config/load/load.h"
#include "config/load/prediction_layout.h"
#include "core/system/log.h"
#include "data/format/local_input.h"
#include "model/check/check.h"
#include "train/predict/rank_predictions.h"
#include "train/run/rank_agreement.h"
#include "train/run/rank_tables.h"
#include "train/state/resume_check.h"
#include "train/state/run_state.h"

namespace emblem {
namespace {

config::PipelineConfig configuration(const std::string& checkpoint, const std::string& config,
                                     std::span<const std::string> overrides) {
  if (config.empty()) return load_stored_pipeline(checkpoint, overrides);
  config::PipelineConfig given = load_pipeline(config, overrides);
  adopt_semantics(load_stored_pipeline(checkpoint), checkpoint, &given);
  follow_local_files(&given);
  return given;
}

// The rows held out of training are those that these settings of training choose.
void check_holdout(const config::PipelineConfig& trained, const config::PipelineConfig& given) {
  const auto check = [](const char* field, auto was, auto is) {
    EMBLEM_REQUIRE(was == is, field, " is ", is, ", but the model was trained with ", was,
                   ": rows of its training would be evaluated; keep ", was,
                   ", or give --input for other data");
  };
  check("data_config.holdout_ratio", trained.data_config().holdout_ratio(),
        given.data_config().holdout_ratio());
  const auto fields = [](const config::PipelineConfig& config) {
    std::string names;
    for (const std::string& name : config.data_config().holdout_fields())
      names += cat(names.empty() ? "" : ", ", in_quotes(name));
    return cat("[", names, "]");
  };
  check("data_config.holdout_fields", fields(trained), fields(given));
  check("train_config.seed", trained.train_config().seed(), given.train_config().seed());
}

void append(const Batch& batch, const std::vector<OutputSpec>& outputs,
            const std::vector<std::vector<float>>& values, Predictions& to) {
  for (size_t row = 0; row < static_cast<size_t>(batch.rows); ++row) {
    const bool is_bad = !batch.bad.empty() && batch.bad[row] != 0;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const auto cols = static_cast<size_t>(outputs[i].cols);
      for (size_t col = 0; col < cols; ++col)
        to.values.push_back(is_bad ? std::numeric_limits<float>::quiet_NaN()
                                   : values[i][row * cols + col]);
    }
  }
}

}  // namespace

RestoredModel::RestoredModel(const Context& context, const std::string& checkpoint,
                             const std::string& config, std::span<const std::string> overrides,
                             const World& world, RestoredFor use)
    : context_(context),
      world_(world),
      checkpoint_(find_checkpoint(checkpoint)),
      config_(configuration(checkpoint_, config, overrides)),
      storage_(open_storage(config_.data_config())) {
  const config::PipelineConfig asked = config_;
  if (use == RestoredFor::kPrediction) remove_sampler(&config_);
  check_pipeline(config_);
  require_same_model(world, checkpoint_, config_);
  layout_ = training_layout(layout_of(config_), config_.model_config());
  model_ = std::make_unique<Model>(
      context, config_, layout_, loader_options("").batch_size, nullptr, ModelUse::kEvaluation,
      rank_tables_of(context, world, rank_exchange_of(context, world, config_.train_config())));
  step_ = load_model(checkpoint_, context_, *model_, evaluated_weights(config_));
  if (compute_type_of(context, config_.train_config()) == DType::kInt8) {
    const std::string file = open_checkpoint(checkpoint_).file(kDenseFile);
    read_input_ranges(SafetensorsFile(file), file, model_->graph());
  }
  model_->graph().freeze();
  log_info(cat("read ", checkpoint_, " (step ", step_, ")"));
  if (!config.empty() || !overrides.empty()) warn_of_changes(checkpoint_, asked);
}

LoaderOptions RestoredModel::loader_options(const std::string& input) const {
  LoaderOptions options = evaluation_loader_options(config_);
  options.storage = storage_;
  if (input.empty()) return options;
  options.input = input;
  options.rows = RowPart::kAll;
  return options;
}

LoaderOptions RestoredModel::prediction_options(const std::string& input) const {
  LoaderOptions options = loader_options(input);
  options.label_check = LabelCheck::kIgnore;
  return options;
}

// How the rows of `input` are read.
config::PipelineConfig RestoredModel::config_for(const std::string& input,
                                                 const std::vector<std::string>& filters) const {
  config::PipelineConfig config = input.empty() ? for_evaluation(config_, storage_) : config_;
  config::DataConfig& data = *config.mutable_data_config();
  sample_for_evaluation(&data);
  if (!input.empty() && follow_input(input, &data, storage_))
    log_info(cat(input, " is read as ", config::DatasetType_Name(data.dataset_type())));
  if (input.empty() && filters.empty()) return config;
  if (filters.empty() && data.filters_size() > 0)
    log_info(
        cat("all rows of ", input,
            " are read: data_config.filters choose rows of training; --filter chooses others"));
  data.clear_filters();
  for (const std::string& filter : filters) data.add_filters(filter);
  return config;
}

Evaluation RestoredModel::evaluate(const std::string& input,
                                   const std::vector<std::string>& filters,
                                   const PassWatch& watch) {
  if (matching_of(config_.model_config())) require_towers(config_.model_config(), "an evaluation");
  const LoaderOptions options = loader_options(input);
  EMBLEM_REQUIRE(!options.input.empty(),
                 "nothing to evaluate on; give --input, or set eval_input_path or "
                 "data_config.holdout_ratio");
  require_local("eval_input_path", options.input, "--eval-input");
  require_same_input(world_, options.input, storage_);
  require_same_samples(world_, config_);
  if (input.empty() && has_holdout(config_))
    check_holdout(load_stored_pipeline(checkpoint_), config_);
  for (const std::string& note : metric_notes(heads_of(config_, layout_))) log_info(note);
  const auto evaluation = emblem::evaluate(context_, model(), config_for(input, filters), layout_,
                                           options, world_, watch);
  if (!evaluation)
    throw CommonError(ErrorCode::kCancelled, "interrupted: the evaluation is incomplete");
  return *evaluation;
}

PredictionPass RestoredModel::predict(const std::string& input, const std::string& out,
                                      const std::vector<std::string>& keep,
                                      const std::vector<std::string>& outputs,
                                      const std::vector<std::string>& filters,
                                      const PassWatch& watch) {
  const config::PipelineConfig config = config_for(input, filters);
  const std::vector<HeadSpec> heads = heads_of(config_, layout_);
  const std::vector<OutputSpec> chosen = choose_outputs(heads, outputs);
  LoaderOptions options = prediction_options(input);
  options.keep = keep;
  require_same_input(world_, options.input, storage_);
  std::optional<PredictionFile> file;
  if (world_.writes())
    file.emplace(out,
                 kept_columns_of(source_of(config.data_config(), options.input, storage_), keep),
                 heads, chosen);
  // The file does not depend on the shards of training.
  const World streams{.ranks = world_.ranks, .shards = world_.size()};
  RankPredictions predictions(*world_.ranks, heads, chosen, file ? &*file : nullptr);
  const auto own = for_each_prediction(
      context_, model(), config, prediction_layout(layout_, config_.model_config(), chosen),
      options, streams, watch,
      [&](size_t, const Batch& batch, const std::vector<View<const float>>& logits) {
        predictions.add(batch, logits);
      },
      [&] { predictions.send(); });
  if (!own) throw CommonError(ErrorCode::kCancelled, cat("interrupted: ", out, " was not written"));
  predictions.finish();
  const PredictionPass pass = sum_passes(world_, *own, options);
  if (file) file->finish();
  return pass;
}

Predictions RestoredModel::predict(const std::string& input,
                                   const std::vector<std::string>& outputs,
                                   const PassWatch& watch) {
  const std::vector<OutputSpec> chosen = choose_outputs(heads_of(config_, layout_), outputs);
  Predictions predictions{.columns = prediction_columns(chosen)};
  predictions.pass = predict_batches(
      input, outputs, {}, {}, watch,
      [&](const Batch& batch, const auto& values) { append(batch, chosen, values, predictions); });
  return predictions;
}

PredictionPass RestoredModel::predict_batches(const std::string& input,
                                              const std::vector<std::string>& outputs,
                                              const std::vector<std::string>& keep,
                                              const std::vector<std::string>& filters,
                                              const PassWatch& watch, const TakeOutputs& take) {
  EMBLEM_REQUIRE(world_.size() == 1, "predictions in memory are those of one rank");
  const std::vector<HeadSpec> heads = heads_of(config_, layout_);
  const std::vector<OutputSpec> chosen = choose_outputs(heads, outputs);
  LoaderOptions options = prediction_options(input);
  options.keep = keep;
  const auto pass = for_each_prediction(
      context_, model(), config_for(input, filters),
      prediction_layout(layout_, config_.model_config(), chosen), options, World::alone(), watch,
      [&](size_t, const Batch& batch, const std::vector<View<const float>>& logits) {
        take(batch, output_values(heads, chosen, batch.rows, logits));
      });
  if (!pass)
    throw CommonError(ErrorCode::kCancelled, "interrupted: the predictions are incomplete");
  return *pass;
}

LayerRanges RestoredModel::input_ranges(const std::string& input, int64_t rows,
                                        const PassWatch& watch) {
  LoaderOptions options = prediction_options(input);
  options.max_batches = (rows + options.batch_size - 1) / options.batch_size;
  model().graph().record_inputs();
  const auto pass = for_each_prediction(
      context_, model(), config_for(input, {}), prediction_layout(layout_, config_.model_config()),
      options, world_, watch, [](size_t, const Batch&, const std::vector<View<const float>>&) {});
  if (!pass) throw CommonError(ErrorCode::kCancelled, "interrupted: nothing was exported");
  EMBLEM_REQUIRE(pass->rows > 0, input, " has no rows to calibrate int8 with");
  LayerRanges ranges = model().graph().recorded_ranges();
  EMBLEM_REQUIRE(!ranges.empty(), "the model has no layers that compute in int8");
  return ranges;
}

}  // namespace emblem
