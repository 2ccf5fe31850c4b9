#include "config/check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/descriptor.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "config/features.h"
#include "config/metrics.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// ---- data_config ----

void check_data(const config::DataConfig& data) {
  EMBLEM_REQUIRE(data.batch_size() > 0, "data_config.batch_size is 0, expected at least 1");
  EMBLEM_REQUIRE(!data.has_eval_batch_size() || data.eval_batch_size() > 0,
                 "data_config.eval_batch_size is 0, expected at least 1, or leave it out");
  EMBLEM_REQUIRE(!data.shuffle() || data.shuffle_buffer_size() > 0,
                 "data_config.shuffle_buffer_size is 0 with shuffle: true; give at least 1, or set "
                 "shuffle: false");
  EMBLEM_REQUIRE(data.sample_ratio() > 0 && data.sample_ratio() <= 1,
                 "data_config.sample_ratio is ", data.sample_ratio(),
                 ", expected more than 0 and at most 1");
  EMBLEM_REQUIRE(data.num_workers() > 0, "data_config.num_workers is 0, expected at least 1");
  EMBLEM_REQUIRE(data.prefetch_batches() > 0,
                 "data_config.prefetch_batches is 0, expected at least 1");
  EMBLEM_REQUIRE(data.delimiter().size() == 1, "data_config.delimiter is \"", data.delimiter(),
                 "\", expected one character");
  const bool has_own_label = data.dataset_type() != config::CsvDataset;
  EMBLEM_REQUIRE(has_own_label || data.label_fields_size() > 0,
                 "data_config.label_fields is empty; name the column that holds the label");
  EMBLEM_REQUIRE(data.sample_weight_fields_size() <= 1, "data_config.sample_weight_fields names ",
                 data.sample_weight_fields_size(), " columns, expected at most 1");
}

// ---- train_config ----

bool watches_metrics(const config::TrainConfig& train) {
  return train.has_early_stopping() ||
         train.sparse_optimizer().has_reduce_on_plateau_learning_rate() ||
         train.dense_optimizer().has_reduce_on_plateau_learning_rate();
}

void check_clipping(const config::GradClipping& clipping) {
  const std::string& type = clipping.clipping_type();
  EMBLEM_REQUIRE(type == "none" || type == "norm" || type == "value",
                 "train_config.grad_clipping.clipping_type is \"", type,
                 "\", expected none, norm or value");
  EMBLEM_REQUIRE(type == "none" || clipping.max_gradient() > 0,
                 "train_config.grad_clipping.max_gradient is ", clipping.max_gradient(),
                 ", expected more than 0");
  EMBLEM_REQUIRE(clipping.norm_type() == 2, "train_config.grad_clipping.norm_type is ",
                 clipping.norm_type(),
                 ", expected 2: gradients are clipped by their Euclidean norm");
}

void check_train(const config::PipelineConfig& config) {
  const config::TrainConfig& train = config.train_config();
  EMBLEM_REQUIRE(train.has_num_steps() || train.has_num_epochs(),
                 "train_config does not say how long to train; give num_steps or num_epochs");
  EMBLEM_REQUIRE(!train.has_num_steps() || !train.has_num_epochs(),
                 "train_config has both num_steps and num_epochs; keep one of them");
  EMBLEM_REQUIRE(train.has_num_steps() ? train.num_steps() > 0 : train.num_epochs() > 0,
                 "train_config.", train.has_num_steps() ? "num_steps" : "num_epochs",
                 " is 0, expected at least 1");
  EMBLEM_REQUIRE(!train.has_eval_steps() || !train.has_eval_epochs(),
                 "train_config has both eval_steps and eval_epochs; keep one of them");
  EMBLEM_REQUIRE(!train.has_eval_steps() || train.eval_steps() > 0,
                 "train_config.eval_steps is 0, expected at least 1, or leave it out");
  EMBLEM_REQUIRE(!train.has_eval_epochs() || train.eval_epochs() > 0,
                 "train_config.eval_epochs is 0, expected at least 1, or leave it out");
  const bool evaluates = !config.eval_input_path().empty();
  EMBLEM_REQUIRE(evaluates || (!train.has_eval_steps() && !train.has_eval_epochs()),
                 "train_config asks for evaluations, but eval_input_path is not set");
  EMBLEM_REQUIRE(evaluates || !watches_metrics(train), "train_config.",
                 train.has_early_stopping() ? "early_stopping" : "reduce_on_plateau_learning_rate",
                 " needs evaluations, but eval_input_path is not set");
  check_metric_watchers(train);
  const std::string& precision = train.mixed_precision();
  EMBLEM_REQUIRE(
      precision.empty() || precision == "FP32" || precision == "FP16" || precision == "BF16",
      "train_config.mixed_precision is \"", precision, "\", expected FP32, FP16 or BF16");
  const config::GradScaler& scaler = train.grad_scaler();
  EMBLEM_REQUIRE(scaler.init_scale() > 0 && scaler.growth_factor() >= 1 &&
                     scaler.backoff_factor() > 0 && scaler.backoff_factor() < 1,
                 "train_config.grad_scaler has init_scale ", scaler.init_scale(),
                 ", growth_factor ", scaler.growth_factor(), " and backoff_factor ",
                 scaler.backoff_factor(),
                 ", expected more than 0, at least 1, and between 0 and 1");
  check_clipping(train.grad_clipping());
  const config::Regularization& penalty = train.regularization();
  EMBLEM_REQUIRE(penalty.embedding_l2() >= 0 && penalty.weight_l2() >= 0,
                 "train_config.regularization has ",
                 penalty.embedding_l2() < 0 ? "embedding_l2 " : "weight_l2 ",
                 penalty.embedding_l2() < 0 ? penalty.embedding_l2() : penalty.weight_l2(),
                 ", expected at least 0");
}

// ---- model_config ----

std::vector<std::string> model_names() {
  const auto* models = config::ModelConfig::descriptor()->FindOneofByName("model");
  std::vector<std::string> names;
  for (int i = 0; i < models->field_count(); ++i) names.push_back(models->field(i)->name());
  return names;
}

void check_mlp(const config::MLP& mlp, const std::string& path) {
  for (int i = 0; i < mlp.hidden_units_size(); ++i) {
    EMBLEM_REQUIRE(mlp.hidden_units(i) > 0, path, ".hidden_units[", i,
                   "] is 0, expected at least 1");
  }
  const int ratios = mlp.dropout_ratio_size(), layers = mlp.hidden_units_size();
  EMBLEM_REQUIRE(ratios <= 1 || ratios == layers, path, ".dropout_ratio has ", ratios,
                 " numbers, expected one, or one for each of the ", layers, " hidden_units");
  for (const float ratio : mlp.dropout_ratio()) {
    EMBLEM_REQUIRE(ratio >= 0 && ratio < 1, path, ".dropout_ratio is ", ratio,
                   ", expected at least 0 and less than 1");
  }
  EMBLEM_REQUIRE(!mlp.use_bn() || !mlp.use_ln(), path,
                 " has both use_bn and use_ln; keep one of them");
}

// Finds every MLP below `message`, whatever the model.
void check_mlps(const Message& message, const std::string& path) {
  if (message.GetDescriptor() == config::MLP::descriptor()) {
    check_mlp(static_cast<const config::MLP&>(message), path);
    return;
  }
  const auto* reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    const std::string child = path + "." + field->name();
    if (!field->is_repeated()) {
      check_mlps(reflection->GetMessage(message, field), child);
      continue;
    }
    for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
      check_mlps(reflection->GetRepeatedMessage(message, field, i),
                 fmt::format("{}[{}]", child, i));
    }
  }
}

std::string table_of(const config::FeatureConfig& feature) {
  const auto name = [](const auto& each) {
    return each.embedding_name().empty() ? each.feature_name() + "_emb" : each.embedding_name();
  };
  return feature.has_id_feature() ? name(feature.id_feature()) : name(feature.raw_feature());
}

uint32_t dim_of(const config::FeatureConfig& feature) {
  return feature.has_id_feature() ? feature.id_feature().embedding_dim()
                                  : feature.raw_feature().embedding_dim();
}

// What features that share a table must agree on.
std::string rows_of(const config::FeatureConfig& feature) {
  if (feature.has_raw_feature())
    return fmt::format("{} buckets", feature.raw_feature().boundaries_size() + 1);
  const config::IdFeature& id = feature.id_feature();
  if (id.has_num_buckets()) return fmt::format("num_buckets {}", id.num_buckets());
  if (id.has_hash_bucket_size()) return fmt::format("hash_bucket_size {}", id.hash_bucket_size());
  return "dynamicemb";
}

void check_shared_tables(const FeatureLayout& layout) {
  std::map<std::string, const FeatureSpec*> owners;
  for (const FeatureSpec& spec : layout.features) {
    if (spec.kind != FeatureKind::kSparse) continue;
    const auto [owner, is_new] = owners.emplace(table_of(spec.config), &spec);
    if (is_new) continue;
    const FeatureSpec& other = *owner->second;
    EMBLEM_REQUIRE(dim_of(spec.config) == dim_of(other.config), "features \"", other.name,
                   "\" and \"", spec.name, "\" share table \"", owner->first,
                   "\", but have embedding_dim ", dim_of(other.config), " and ",
                   dim_of(spec.config), "; make them equal or give them their own embedding_name");
    EMBLEM_REQUIRE(rows_of(spec.config) == rows_of(other.config), "features \"", other.name,
                   "\" and \"", spec.name, "\" share table \"", owner->first, "\", but have ",
                   rows_of(other.config), " and ", rows_of(spec.config),
                   "; make them equal or give them their own embedding_name");
  }
}

enum class Vectors { kNeeded, kUnused };  // whether a model looks at embedding_dim

void check_group(const config::FeatureGroupConfig& group, const FeatureLayout& layout,
                 Vectors vectors) {
  EMBLEM_REQUIRE(group.feature_names_size() > 0, "feature group \"", group.group_name(),
                 "\" has no feature_names");
  std::set<std::string> seen;
  for (const std::string& name : group.feature_names()) {
    EMBLEM_REQUIRE(seen.insert(name).second, "feature group \"", group.group_name(), "\" names \"",
                   name, "\" twice");
    try {
      const FeatureSpec& spec = layout.find(name);
      const bool has_vector = spec.kind == FeatureKind::kDense || dim_of(spec.config) > 0;
      EMBLEM_REQUIRE(vectors == Vectors::kUnused || has_vector, "feature \"", name,
                     "\" has no embedding_dim");
    } catch (const Error& error) {
      throw Error(error.code(), cat("feature group \"", group.group_name(), "\": ", error.what()));
    }
  }
}

void check_model(const config::PipelineConfig& config, const FeatureLayout& layout) {
  const config::ModelConfig& model = config.model_config();
  EMBLEM_REQUIRE(model.model_case() != config::ModelConfig::MODEL_NOT_SET,
                 "model_config names no model; give one of ",
                 fmt::format("{}", fmt::join(model_names(), ", ")));
  EMBLEM_REQUIRE(model.feature_groups_size() > 0, "model_config has no feature_groups");
  std::set<std::string> names;
  for (const config::FeatureGroupConfig& group : model.feature_groups()) {
    EMBLEM_REQUIRE(!group.group_name().empty(),
                   "a feature group of model_config has no group_name");
    EMBLEM_REQUIRE(names.insert(group.group_name()).second, "two feature groups are called \"",
                   group.group_name(), "\"");
    // A wide table has a dimension of its own, whatever the feature says.
    const bool wide = group.group_type() == config::WIDE || model.has_lr();
    check_group(group, layout, wide ? Vectors::kUnused : Vectors::kNeeded);
  }
  check_mlps(model, "model_config");
}

}  // namespace

void check_pipeline(const config::PipelineConfig& config) {
  EMBLEM_REQUIRE(config.feature_configs_size() > 0, "the pipeline has no feature_configs");
  const FeatureLayout layout = layout_of(config);
  check_shared_tables(layout);
  check_model(config, layout);
  check_data(config.data_config());
  check_train(config);
}

}  // namespace emblem
