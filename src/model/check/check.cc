#include "model/check/check.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "config/check/sharding_types.h"
#include "config/feature/features.h"
#include "config/feature/metrics.h"
#include "config/load/evaluation_input.h"
#include "config/proto/pipeline.pb.h"
#include "core/files/file.h"
#include "core/text/text.h"
#include "data/feature/column_requests.h"
#include "emblem/error.h"
#include "model/check/check_model.h"

namespace emblem {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr uint64_t kMostUnits = 1'000'000;
constexpr uint64_t kMostParts = 1000;

struct Limit {
  std::string_view field;
  uint64_t most;
};

constexpr Limit kLimits[] = {
    // widths of layers and vectors
    {"hidden_units", kMostUnits},
    {"ppnet_hidden_units", kMostUnits},
    {"epnet_hidden_unit", kMostUnits},
    {"cin_layer_size", kMostUnits},
    {"aggregation_dim", kMostUnits},
    {"hidden_dim", kMostUnits},
    {"lcb_feature_num", kMostUnits},
    {"fmb_feature_num", kMostUnits},
    {"compressed_feature_num", kMostUnits},
    {"low_rank", kMostUnits},
    {"wide_embedding_dim", kMostUnits},
    {"embedding_dim", kMostUnits},
    {"num_channels", kMostUnits},
    {"num_class", kMostUnits},
    // parts that are alike
    {"num_expert", kMostParts},
    {"expert_num_per_task", kMostParts},
    {"share_num", kMostParts},
    {"n_mask_blocks", kMostParts},
    {"cross_num", kMostParts},
    {"ensemble_size", kMostParts},
    {"task_domain_num", kMostParts},
};

// Each entry is a layer, a tower or an encoder.
constexpr std::string_view kLists[] = {
    "hidden_units",      "ppnet_hidden_units", "epnet_hidden_unit", "cin_layer_size",
    "sequence_encoders", "task_towers",        "windows_len",
};

void check_count(const FieldDescriptor& field, int count, const std::string& path) {
  const bool is_limited =
      std::find(std::begin(kLists), std::end(kLists), field.name()) != std::end(kLists);
  EMBLEM_REQUIRE(!is_limited || static_cast<uint64_t>(count) <= kMostParts, path, " has ", count,
                 " entries, expected at most ", kMostParts);
}

// An infinite one of these means no limit.
bool may_be_infinite(const FieldDescriptor& field) {
  return field.name() == "boundaries" || field.name() == "max_gradient";
}

void check_number(const FieldDescriptor& field, double value, const std::string& path) {
  EMBLEM_REQUIRE(std::isfinite(value) || (std::isinf(value) && may_be_infinite(field)), path,
                 " is ", value, ", expected a finite number");
}

void check_size(const FieldDescriptor& field, uint64_t value, const std::string& path) {
  for (const Limit& limit : kLimits)
    EMBLEM_REQUIRE(field.name() != limit.field || value <= limit.most, path, " is ", value,
                   ", expected at most ", limit.most);
}

void check_message(const Message& message, const std::string& path);

// `index` -1: the field is not repeated.
void check_value(const Message& message, const FieldDescriptor& field, int index,
                 const std::string& path) {
  const auto& reflection = *message.GetReflection();
  const bool one = index < 0;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return check_message(one ? reflection.GetMessage(message, &field)
                               : reflection.GetRepeatedMessage(message, &field, index),
                           path);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return check_number(field,
                          one ? reflection.GetFloat(message, &field)
                              : reflection.GetRepeatedFloat(message, &field, index),
                          path);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return check_number(field,
                          one ? reflection.GetDouble(message, &field)
                              : reflection.GetRepeatedDouble(message, &field, index),
                          path);
    case FieldDescriptor::CPPTYPE_UINT32:
      return check_size(field,
                        one ? reflection.GetUInt32(message, &field)
                            : reflection.GetRepeatedUInt32(message, &field, index),
                        path);
    default:
      return;
  }
}

void check_message(const Message& message, const std::string& path) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string name = path.empty() ? field->name() : path + "." + field->name();
    if (!field->is_repeated()) {
      check_value(message, *field, -1, name);
      continue;
    }
    const int count = message.GetReflection()->FieldSize(message, field);
    check_count(*field, count, name);
    for (int i = 0; i < count; ++i) check_value(message, *field, i, cat(name, "[", i, "]"));
  }
}

// Throws Error that names the field: layers wider and parts of a model more numerous than can be
// computed, and numbers that are not finite.
void check_ranges(const config::PipelineConfig& config) { check_message(config, ""); }

constexpr uint32_t kMostShards = 1024;

// ---- data_config ----

// Types of TorchEasyRec are read from files, which have columns.
bool may_be_csv(const config::DataConfig& data) {
  return data.dataset_type() < config::CriteoTsvDataset;
}

void check_data(const config::DataConfig& data) {
  EMBLEM_REQUIRE(data.batch_size() > 0, "data_config.batch_size is 0, expected at least 1");
  EMBLEM_REQUIRE(!data.has_eval_batch_size() || data.eval_batch_size() > 0,
                 "data_config.eval_batch_size is 0, expected at least 1, or unset");
  EMBLEM_REQUIRE(!data.shuffle() || data.shuffle_buffer_size() > 0,
                 "data_config.shuffle_buffer_size is 0 with shuffle: true; give at least 1, or set "
                 "shuffle: false");
  EMBLEM_REQUIRE(data.sample_ratio() > 0 && data.sample_ratio() <= 1,
                 "data_config.sample_ratio is ", data.sample_ratio(),
                 ", expected more than 0 and at most 1");
  EMBLEM_REQUIRE(data.holdout_ratio() >= 0 && data.holdout_ratio() < 1,
                 "data_config.holdout_ratio is ", data.holdout_ratio(),
                 ", expected at least 0 and less than 1");
  EMBLEM_REQUIRE(data.num_workers() > 0, "data_config.num_workers is 0, expected at least 1");
  EMBLEM_REQUIRE(data.prefetch_batches() > 0,
                 "data_config.prefetch_batches is 0, expected at least 1");
  EMBLEM_REQUIRE(data.delimiter().size() == 1, "data_config.delimiter is \"", data.delimiter(),
                 "\", expected one character");
  EMBLEM_REQUIRE(!may_be_csv(data) || data.label_fields_size() > 0,
                 "data_config.label_fields is empty; name the column that holds the label");
}

// Positions count from 0, as in --set.
template <class Names, class NameOf>
void check_unique(const Names& names, const std::string& field, const NameOf& name_of) {
  std::map<std::string, int> seen;
  for (int i = 0; i < names.size(); ++i) {
    const std::string& name = name_of(names[i]);
    EMBLEM_REQUIRE(!name.empty(), field, "[", i, "] has no name");
    const auto [at, is_new] = seen.emplace(name, i);
    EMBLEM_REQUIRE(is_new, field, "[", at->second, "] and ", field, "[", i, "] are both \"",
                   printable(name), "\"; remove or rename one of them");
  }
}

void check_columns(const config::DataConfig& data) {
  check_unique(data.label_fields(), "data_config.label_fields",
               [](const std::string& name) -> const std::string& { return name; });
  check_unique(data.input_fields(), "data_config.input_fields",
               [](const config::Field& field) -> const std::string& { return field.input_name(); });
  const bool has_names = may_be_csv(data) || reads_as_requested(data.dataset_type());
  EMBLEM_REQUIRE(has_names || data.na_strings().empty(),
                 "data_config.na_strings is for CsvDataset, columnar files and streams, "
                 "dataset_type is ",
                 config::DatasetType_Name(data.dataset_type()), "; remove it");
}

// Were there other data to evaluate on, the rows held out would be wasted.
void check_holdout(const config::PipelineConfig& config) {
  if (!has_holdout(config) || config.eval_input_path().empty()) return;
  EMBLEM_REQUIRE(
      absolute_paths(config.eval_input_path()) == absolute_paths(config.train_input_path()),
      "data_config.holdout_ratio is ", config.data_config().holdout_ratio(),
      ", but eval_input_path is \"", printable(config.eval_input_path()),
      "\"; remove one of them: the rows held out of train_input_path are evaluated on (--set "
      "data_config.holdout_ratio=0 evaluates on eval_input_path)");
}

// ---- streams ----

bool is_stream(const config::PipelineConfig& config) {
  return is_kafka_address(config.train_input_path());
}

void check_stream(const config::PipelineConfig& config) {
  if (!is_stream(config)) return;
  const config::DataConfig& data = config.data_config();
  EMBLEM_REQUIRE(data.dataset_type() == config::KafkaDataset,
                 "train_input_path is a topic, but data_config.dataset_type is ",
                 config::DatasetType_Name(data.dataset_type()),
                 "; set dataset_type: KafkaDataset and stream_format");
  EMBLEM_REQUIRE(data.holdout_ratio() == 0,
                 "data_config.holdout_ratio is incompatible with a stream; remove it: "
                 "train_config.progressive_eval_rows evaluates rows before they are trained on");
  EMBLEM_REQUIRE(config.train_config().num_epochs() <= 1, "train_config.num_epochs is ",
                 config.train_config().num_epochs(), ", but a stream has no epochs; remove it");
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
  EMBLEM_REQUIRE(train.has_num_steps() || train.has_num_epochs() || is_stream(config),
                 "train_config does not say how long to train; give num_steps or num_epochs");
  EMBLEM_REQUIRE(!train.has_num_steps() || !train.has_num_epochs(),
                 "train_config has both num_steps and num_epochs; keep one of them");
  EMBLEM_REQUIRE((!train.has_num_steps() || train.num_steps() > 0) &&
                     (!train.has_num_epochs() || train.num_epochs() > 0),
                 "train_config.", train.has_num_steps() ? "num_steps" : "num_epochs",
                 " is 0, expected at least 1");
  EMBLEM_REQUIRE(!train.has_eval_steps() || !train.has_eval_epochs(),
                 "train_config has both eval_steps and eval_epochs; keep one of them");
  EMBLEM_REQUIRE(!train.has_eval_steps() || train.eval_steps() > 0,
                 "train_config.eval_steps is 0, expected at least 1, or unset");
  EMBLEM_REQUIRE(!train.has_eval_epochs() || train.eval_epochs() > 0,
                 "train_config.eval_epochs is 0, expected at least 1, or unset");
  const bool evaluates = !evaluation_input(config).empty();
  EMBLEM_REQUIRE(evaluates || (!train.has_eval_steps() && !train.has_eval_epochs()),
                 "train_config asks for evaluations, but there is nothing to evaluate on; set "
                 "eval_input_path or data_config.holdout_ratio");
  EMBLEM_REQUIRE(evaluates || !watches_metrics(train), "train_config.",
                 train.has_early_stopping() ? "early_stopping" : "reduce_on_plateau_learning_rate",
                 " needs evaluations, but there is nothing to evaluate on; set eval_input_path or "
                 "data_config.holdout_ratio");
  check_metric_watchers(train);
  EMBLEM_REQUIRE(train.divide_tables() > 0, "train_config.divide_tables is 0, expected at least 1");
  EMBLEM_REQUIRE(
      !train.has_gradient_accumulation_steps() || train.gradient_accumulation_steps() > 0,
      "train_config.gradient_accumulation_steps is 0, expected at least 1");
  const std::string& precision = train.mixed_precision();
  EMBLEM_REQUIRE(precision.empty() || precision == "FP32" || precision == "FP16" ||
                     precision == "BF16" || precision == "INT8",
                 "train_config.mixed_precision is \"", precision,
                 "\", expected FP32, FP16 or BF16 (or INT8 in exported models)");
  EMBLEM_REQUIRE(train.logical_shards() <= kMostShards, "train_config.logical_shards is ",
                 train.logical_shards(), ", expected up to ", kMostShards,
                 ": each has a loader of its own");
  const std::string& exchange = train.exchange_precision();
  EMBLEM_REQUIRE(exchange == "FP32" || exchange == "FP16" || exchange == "BF16",
                 "train_config.exchange_precision is \"", exchange,
                 "\", expected FP32, FP16 or BF16");
  EMBLEM_REQUIRE(exchange == "FP32" || (!train.deterministic() && train.logical_shards() == 0),
                 "train_config.exchange_precision is \"", exchange,
                 "\", with which results depend on the number of ranks; remove deterministic and "
                 "logical_shards, or choose FP32");
  const std::string& dedup = train.dedup_per_host();
  EMBLEM_REQUIRE(dedup == "AUTO" || dedup == "ON" || dedup == "OFF",
                 "train_config.dedup_per_host is \"", dedup, "\", expected AUTO, ON or OFF");
  const config::GradScaler& scaler = train.grad_scaler();
  EMBLEM_REQUIRE(scaler.init_scale() > 0 && scaler.growth_factor() >= 1 &&
                     scaler.backoff_factor() > 0 && scaler.backoff_factor() < 1,
                 "train_config.grad_scaler has init_scale ", scaler.init_scale(),
                 ", growth_factor ", scaler.growth_factor(), " and backoff_factor ",
                 scaler.backoff_factor(),
                 ", expected more than 0, at least 1, and between 0 and 1");
  check_clipping(train.grad_clipping());
  EMBLEM_REQUIRE(
      !train.grad_clipping().enable_global_grad_clip() || train.gradient_accumulation_steps() <= 1,
      "train_config.grad_clipping.enable_global_grad_clip needs all gradients of a step, but with "
      "gradient_accumulation_steps: ",
      train.gradient_accumulation_steps(),
      " rows are updated with every batch and other parameters less often; remove one of them");
  const config::Regularization& penalty = train.regularization();
  EMBLEM_REQUIRE(penalty.embedding_l2() >= 0 && penalty.weight_l2() >= 0,
                 "train_config.regularization has ",
                 penalty.embedding_l2() < 0 ? "embedding_l2 " : "weight_l2 ",
                 penalty.embedding_l2() < 0 ? penalty.embedding_l2() : penalty.weight_l2(),
                 ", expected at least 0");
}

}  // namespace

void check_pipeline(const config::PipelineConfig& config) {
  EMBLEM_REQUIRE(config.feature_configs_size() > 0, "the pipeline has no feature_configs");
  refuse_unsupported(config);
  const FeatureLayout layout = layout_of(config);
  check_shared_tables(config, layout);
  check_model(config, layout);
  check_data(config.data_config());
  check_holdout(config);
  if (layout.semantics.strict_checks) check_columns(config.data_config());
  check_stream(config);
  check_train(config);
  check_ranges(config);
  for (const FeatureSpec& feature : layout.features)
    sharding_kinds_of(feature.config, config.train_config());
}

}  // namespace emblem
