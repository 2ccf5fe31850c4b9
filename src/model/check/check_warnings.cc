#include <google/protobuf/descriptor.h>
#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "config/feature/feature_warnings.h"
#include "config/feature/features.h"
#include "config/feature/matching.h"
#include "config/feature/towers.h"
#include "config/proto/pipeline.pb.h"
#include "core/text/text.h"
#include "emblem/error.h"
#include "loss/from_config.h"
#include "metric/kinds.h"
#include "model/check/check.h"
#include "model/models.h"

namespace emblem {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Reasons by "Message.field"; "*" for all messages.
const std::map<std::string, const char*>& reasons() {
  static const char* const kFused = "optimizers are fused";
  static const char* const kPrecision = "see train_config.mixed_precision";
  static const char* const kTable = "tables choose it";
  static const char* const kOdps = "of ODPS tables";
  static const char* const kLabel = "a label";
  static const char* const kPareto = "use_pareto_loss_weight is not supported; set weight";
  static const char* const kExported = "emblem export writes the checkpoint that it is given";
  static const std::map<std::string, const char*> kReasons = {
      {"AdagradOptimizer.fused", kFused},
      {"AdamOptimizer.fused", kFused},
      {"AdamWOptimizer.fused", kFused},
      {"SGDOptimizer.fused", kFused},
      {"BayesTaskTower.pareto_min_loss_weight", kPareto},
      {"DINEncoder.name", kLabel},
      {"DataConfig.fg_threads", "num_workers counts the threads"},
      {"DataConfig.force_base_data_group", kOdps},
      {"DataConfig.in_order", "set shuffle instead"},
      {"DataConfig.is_orderby_partition", kOdps},
      {"DataConfig.odps_data_compression", kOdps},
      {"DataConfig.odps_data_quota_name", kOdps},
      {"DataConfig.pin_memory", "memory is pinned where a GPU trains"},
      {"DynamicEmbedding.bucket_capacity", kTable},
      {"DynamicEmbedding.cache_load_factor", kTable},
      {"DynamicEmbFrequencyAdmissionStrategy.counter_bucket_capacity", kTable},
      {"DynamicEmbFrequencyAdmissionStrategy.initializer_args",
       "keys that wait for admission read the row that they will get"},
      {"EvalConfig.log_step_count_steps", "evaluations show their progress"},
      {"ExportConfig.best_exporter_metric", kExported},
      {"ExportConfig.cuda_matmul_allow_tf32", kPrecision},
      {"ExportConfig.cudnn_allow_tf32", kPrecision},
      {"ExportConfig.metric_larger_is_better", kExported},
      {"ExportConfig.mixed_precision", "use emblem export --precision or emblem serve --precision"},
      {"GroupedXAUC.max_pairs_per_group", "all pairs count"},
      {"LRU_EvictionPolicy.decay_exponent", "the least recently used row leaves, whatever it is"},
      {"ModelConfig.kernel", "kernels are chosen for the machine"},
      {"MultiWindowDINEncoder.name", kLabel},
      {"NegativeSampler.item_id_delim", "a row has one item"},
      {"ParameterConstraints.compute_kernels", "placement says where rows are"},
      {"PoolingEncoder.name", kLabel},
      {"SelfAttentionEncoder.name", kLabel},
      {"SequenceFeature.sequence_pk", "sequences are read from the data"},
      {"SimpleAttention.name", kLabel},
      {"TaskTower.pareto_min_loss_weight", kPareto},
      {"TrainConfig.cuda_matmul_allow_tf32", kPrecision},
      {"TrainConfig.cudnn_allow_tf32", kPrecision},
      {"TrainConfig.feature_store_config", "servers read delta_steps"},
      {"TrainConfig.is_profiling", "use emblem train --profile"},
      {"TrainConfig.save_checkpoints_timestamp_quorum", "all ranks save together"},
      {"TrainConfig.tensorboard_summaries", "all values are written"},
      {"XAUC.max_pairs", "all pairs count"},
      {"XAUC.sample_ratio", "all pairs count"},
      {"*.fg_value_type", "values have the type of their column"},
  };
  return kReasons;
}

bool is_default(const Message& message, const FieldDescriptor* field) {
  const std::unique_ptr<Message> empty(message.New());
  google::protobuf::util::MessageDifferencer differencer;
  differencer.set_message_field_comparison(
      google::protobuf::util::MessageDifferencer::EQUIVALENT);  // set to the default: equal
  std::vector<const FieldDescriptor*> fields = {field};
  return differencer.CompareWithFields(message, *empty, fields, fields);
}

bool is_mlp_without_layers(const Message& message) {
  return message.GetDescriptor() == config::MLP::descriptor() &&
         static_cast<const config::MLP&>(message).hidden_units_size() == 0;
}

void find(const Message& message, const std::string& path, std::vector<std::string>* found) {
  const Reflection* r = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  r->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string place = path.empty() ? field->name() : path + "." + field->name();
    if (is_mlp_without_layers(message)) {
      if (!is_default(message, field))
        found->push_back(cat(place, " (there are no layers without hidden_units)"));
      continue;
    }
    auto reason = reasons().find(message.GetDescriptor()->name() + "." + field->name());
    if (reason == reasons().end()) reason = reasons().find("*." + field->name());
    if (reason != reasons().end()) {
      if (!is_default(message, field)) found->push_back(cat(place, " (", reason->second, ")"));
      continue;
    }
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_map()) continue;
    if (!field->is_repeated()) {
      find(r->GetMessage(message, field), place, found);
      continue;
    }
    for (int i = 0; i < r->FieldSize(message, field); ++i)
      find(r->GetRepeatedMessage(message, field, i), cat(place, "[", i, "]"), found);
  }
}

// Settings that `config` changes from their default, each with the reason:
// "data_config.pin_memory (memory is pinned where a GPU trains)".
std::vector<std::string> settings_without_effect(const config::PipelineConfig& config) {
  std::vector<std::string> found;
  find(config, "", &found);
  return found;
}

using Names = std::vector<std::string>;

void warn_of_groups(const config::PipelineConfig& config, const FeatureLayout& layout,
                    Names& warnings) {
  std::set<std::string> used, grouped;
  for (const GroupUse& use : find_model(config.model_config())->groups(config))
    used.insert(use.group);
  for (const config::FeatureGroupConfig& group : config.model_config().feature_groups()) {
    grouped.insert(group.feature_names().begin(), group.feature_names().end());
    for (const config::SeqGroupConfig& nested : group.sequence_groups())
      grouped.insert(nested.feature_names().begin(), nested.feature_names().end());
    if (!used.contains(group.group_name()))
      warnings.push_back(
          cat("the model does not read feature group \"", printable(group.group_name()), "\""));
  }
  for (const TowerSpec& tower : towers_of(config.model_config())) {
    for (const config::MetricConfig& metric : tower.metrics)
      grouped.insert(grouping_key_of(metric).value_or(""));
    for (const config::LossConfig& loss : tower.losses)
      grouped.insert(session_of(loss).value_or(""));
  }
  for (const FeatureSpec& spec : layout.features) {
    for (const FeatureInput& input : spec.inputs)
      if (input.source == FeatureInput::Source::kFeature) grouped.insert(input.name);
  }
  Names unused;
  for (const FeatureSpec& spec : layout.features)
    if (!grouped.contains(spec.name)) unused.push_back(spec.name);
  if (unused.empty()) return;
  warnings.push_back(cat(
      feature_list(unused), unused.size() == 1 ? " is" : " are",
      " in no feature group and not used by the model; add ", unused.size() == 1 ? "it" : "them",
      " to feature_names of a group, or remove ", unused.size() == 1 ? "it" : "them"));
}

void warn_of_labels(const config::PipelineConfig& config, const FeatureLayout& layout,
                    Names& warnings) {
  const config::DataConfig& data = config.data_config();
  const bool towers = has_task_towers(config.model_config());
  if (!towers && !matching_of(config.model_config()) && data.label_fields_size() > 1)
    warnings.push_back(cat("data_config.label_fields names ", data.label_fields_size(),
                           " columns; the model learns the first, \"",
                           printable(data.label_fields(0)), "\""));
  if (!towers && data.sample_weight_fields_size() > 1)
    warnings.push_back(cat("data_config.sample_weight_fields names ",
                           data.sample_weight_fields_size(),
                           " columns; the model reads the "
                           "first, \"",
                           printable(data.sample_weight_fields(0)), "\""));
  if (!towers) return;
  for (const config::BayesTaskTower& tower : config.model_config().dbmtl().task_towers())
    if (tower.relation_tower_names_size() > 0 && !tower.has_relation_mlp())
      warnings.push_back(cat("tower \"", printable(tower.tower_name()),
                             "\" has relation_tower_names, but no relation_mlp, without which they "
                             "have no effect"));
  for (const std::string& field : data.label_fields()) {
    const bool used = std::any_of(layout.labels.begin(), layout.labels.end(),
                                  [&](const LabelSpec& label) { return label.name == field; });
    if (!used) warnings.push_back(cat("no tower reads label \"", printable(field), "\""));
  }
  for (const std::string& field : data.sample_weight_fields())
    if (std::find(layout.weight_fields.begin(), layout.weight_fields.end(), field) ==
        layout.weight_fields.end())
      warnings.push_back(cat("data_config.sample_weight_fields: no tower reads \"",
                             printable(field), "\"; name it by sample_weight_name of a tower"));
}

bool is_of_fixed_columns(const config::DataConfig& data) {
  return data.dataset_type() == config::CriteoTsvDataset ||
         data.dataset_type() == config::RawDataset || data.dataset_type() == config::SplitDataset;
}

// Settings of other data, and of another precision.
void warn_of_other_runs(const config::PipelineConfig& config, Names& warnings) {
  const config::DataConfig& data = config.data_config();
  const config::TrainConfig& train = config.train_config();
  const bool is_stream = is_kafka_address(config.train_input_path());
  const auto warn = [&](bool given, const char* setting, const char* reason) {
    if (given) warnings.push_back(cat(setting, " has no effect: ", reason));
  };
  for (const auto& [given, setting] : {std::pair{data.has_num_dense(), "data_config.num_dense"},
                                       std::pair{data.has_num_sparse(), "data_config.num_sparse"}})
    warn(given && !is_of_fixed_columns(data), setting,
         "it is of CriteoTsvDataset, RawDataset and SplitDataset");
  warn(data.has_stream_format() && !is_stream, "data_config.stream_format",
       "train_input_path is not a topic");
  warn(train.has_progressive_eval_rows() && !is_stream, "train_config.progressive_eval_rows",
       "train_input_path is not a topic");
  warn(train.has_grad_scaler() && train.mixed_precision() != "FP16", "train_config.grad_scaler",
       "mixed_precision is not FP16");
}

}  // namespace

std::vector<std::string> pipeline_warnings(const config::PipelineConfig& config) {
  const FeatureLayout layout = layout_of(config);
  const config::DataConfig& data = config.data_config();
  Names warnings;
  warn_of_labels(config, layout, warnings);
  if (config.train_config().divide_tables() > 1)
    warnings.push_back(cat("divide_tables is ", config.train_config().divide_tables(),
                           ": tables have that part of their rows, and the model is not the one "
                           "that the pipeline describes"));
  if (data.shuffle() && is_kafka_address(config.train_input_path()))
    warnings.push_back(
        "data_config.shuffle has no effect on a stream: rows are trained on in the order in which "
        "they arrive");
  warn_of_other_runs(config, warnings);
  const ModelKind& kind = *find_model(config.model_config());
  if (kind.warn != nullptr) kind.warn(config.model_config(), warnings);
  if (data.holdout_fields_size() > 0 && data.holdout_ratio() == 0)
    warnings.push_back(
        "data_config.holdout_fields has no effect: holdout_ratio is 0 and no row is held out");
  if (data.has_fg_encoded())
    warnings.push_back(cat("data_config.fg_encoded is deprecated; write fg_mode: ",
                           config::FgMode_Name(layout.semantics.fg_mode), " instead"));
  if (config.export_config().exporter_type() != "latest")
    warnings.push_back(
        cat("export_config.exporter_type \"", printable(config.export_config().exporter_type()),
            "\" has no effect: emblem export writes the checkpoint that it is given"));
  constexpr size_t kMostNamed = 8;
  const Names unused = settings_without_effect(config);
  for (size_t i = 0; i < unused.size() && i < kMostNamed; ++i)
    warnings.push_back(cat("no effect: ", unused[i]));
  if (unused.size() > kMostNamed)
    warnings.push_back(cat("no effect: ", unused.size() - kMostNamed, " more settings"));
  for (const std::string& warning : feature_warnings(config, layout)) warnings.push_back(warning);
  warn_of_groups(config, layout, warnings);
  return warnings;
}

}  // namespace emblem
