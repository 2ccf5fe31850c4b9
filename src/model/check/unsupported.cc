#include "model/check/check_model.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>

#include "config/feature/matching.h"
#include "config/feature/towers.h"
#include "core/text/joined.h"
#include "core/text/text.h"
#include "emblem/error.h"
#include "model/models.h"

namespace emblem {
namespace {

using config::ModelConfig;

[[noreturn]] void refuse(const std::string& setting, const std::string& advice) {
  throw Error(ErrorCode::kInvalidArgument, cat(setting, " is not supported yet; ", advice));
}

// The name of the field of a oneof that is set; "" when none is.
std::string chosen_in(const google::protobuf::Message& message, const char* oneof) {
  const auto* choice = message.GetDescriptor()->FindOneofByName(oneof);
  const auto* field = message.GetReflection()->GetOneofFieldDescriptor(message, choice);
  return field == nullptr ? "" : field->name();
}

void check_model_is_supported(const ModelConfig& model) {
  const std::string name = chosen_in(model, "model");
  if (!name.empty() && find_model(model) == nullptr)
    refuse(cat("model \"", name, "\""), cat("use one of ", joined(supported_models())));
  if (model.variational_dropout().embedding_wise_variational_dropout())
    refuse("model_config.variational_dropout.embedding_wise_variational_dropout",
           "remove it: whole features are dropped");
  if (model.use_pareto_loss_weight())
    refuse("model_config.use_pareto_loss_weight", "give the towers a weight instead");
  for (const config::FeatureGroupConfig& group : model.feature_groups()) {
    if (group.group_type() == config::JAGGED_SEQUENCE)
      refuse(cat("group_type JAGGED_SEQUENCE of feature group \"", printable(group.group_name()),
                 "\""),
             "use SEQUENCE");
  }
}

// TorchEasyRec ignores them silently.
void check_settings_of_towers(const ModelConfig& model) {
  if (!has_task_towers(model)) return;
  const auto check = [](int count, const char* field) {
    EMBLEM_REQUIRE(count == 0, "model_config.", field,
                   " has no effect on a model with task_towers; move it into its towers");
  };
  check(model.losses_size(), "losses");
  check(model.has_num_class() ? 1 : 0, "num_class");
  check(model.metrics_size(), "metrics");
  check(model.train_metrics_size(), "train_metrics");
}

void check_sampler_is_supported(const config::DataConfig& data, const ModelConfig& model) {
  const std::string sampler = chosen_in(data, "sampler");
  if (data.has_tdm_sampler()) {
    EMBLEM_REQUIRE(model.has_tdm(), "data_config.tdm_sampler is for the model tdm; remove it");
    return;
  }
  EMBLEM_REQUIRE(sampler.empty() || !model.has_tdm(), "data_config.", sampler,
                 " is not for the model tdm; use tdm_sampler");
  EMBLEM_REQUIRE(sampler.empty() || matching_of(model), "data_config.", sampler,
                 " is for matching models (dssm, dssm_v2, dat, mind); remove it");
}

void check_data_is_supported(const config::DataConfig& data) {
  if (data.has_sample_cost_field() || data.has_batch_cost_size())
    refuse(data.has_batch_cost_size() ? "data_config.batch_cost_size"
                                      : "data_config.sample_cost_field",
           "give batch_size instead");
  if (data.sample_mask_prob() > 0 || data.negative_sample_mask_prob() > 0)
    refuse(data.sample_mask_prob() > 0 ? "data_config.sample_mask_prob"
                                       : "data_config.negative_sample_mask_prob",
           "remove it, or drop values before the data are read");
}

void check_features_are_supported(const config::PipelineConfig& config) {
  const auto refuse_custom = [](const config::CustomFeature& feature) {
    refuse(cat("custom_feature \"", printable(feature.feature_name()), "\""),
           "compute it before the data are read, or with an expr_feature");
  };
  for (const config::FeatureConfig& feature : config.feature_configs()) {
    if (feature.has_custom_feature()) refuse_custom(feature.custom_feature());
    if (feature.has_sequence_custom_feature()) refuse_custom(feature.sequence_custom_feature());
    for (const config::SeqFeatureConfig& member : feature.sequence_feature().features())
      if (member.has_custom_feature()) refuse_custom(member.custom_feature());
  }
}

void check_training_is_supported(const config::PipelineConfig& config) {
  const config::TrainConfig& train = config.train_config();
  if (train.has_fine_tune_ckpt_param_map())
    refuse("train_config.fine_tune_ckpt_param_map", "name parameters as in the checkpoint");
  if (train.save_checkpoints_timestamp_interval() > 0 &&
      !is_kafka_address(config.train_input_path()))
    refuse("train_config.save_checkpoints_timestamp_interval",
           "it is for streams; use save_checkpoints_steps or save_checkpoints_epochs");
  if (train.save_checkpoints_timestamps_size() > 0)
    refuse("train_config.save_checkpoints_timestamps", "use save_checkpoints_timestamp_interval");
  if (train.has_delta_embedding_dump_config())
    refuse("train_config.delta_embedding_dump_config", "set delta_steps");
}

}  // namespace

void refuse_unsupported(const config::PipelineConfig& config) {
  check_model_is_supported(config.model_config());
  check_settings_of_towers(config.model_config());
  check_sampler_is_supported(config.data_config(), config.model_config());
  check_data_is_supported(config.data_config());
  check_features_are_supported(config);
  check_training_is_supported(config);
}

}  // namespace emblem
