#include "config/no_effect.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/util/message_differencer.h>

#include <map>
#include <memory>

#include "emblem/error.h"

namespace emblem {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// By "Message.field"; "*" for all messages.
const std::map<std::string, const char*>& reasons() {
  static const char* const kFused = "optimizers are fused";
  static const char* const kPrecision = "see train_config.mixed_precision";
  static const char* const kTable = "tables choose it";
  static const char* const kOdps = "of ODPS tables";
  static const char* const kExported = "emblem export writes the checkpoint that it is given";
  static const std::map<std::string, const char*> kReasons = {
      {"AdagradOptimizer.fused", kFused},
      {"AdamOptimizer.fused", kFused},
      {"AdamWOptimizer.fused", kFused},
      {"SGDOptimizer.fused", kFused},
      {"DataConfig.fg_threads", "num_workers counts the threads"},
      {"DataConfig.force_base_data_group", kOdps},
      {"DataConfig.in_order", "shuffle says it"},
      {"DataConfig.is_orderby_partition", kOdps},
      {"DataConfig.odps_data_compression", kOdps},
      {"DataConfig.odps_data_quota_name", kOdps},
      {"DataConfig.pin_memory", "memory is pinned where a GPU trains"},
      {"DynamicEmbedding.bucket_capacity", kTable},
      {"DynamicEmbedding.cache_load_factor", kTable},
      {"DynamicEmbFrequencyAdmissionStrategy.counter_bucket_capacity", kTable},
      {"EvalConfig.log_step_count_steps", "evaluations show their progress"},
      {"ExportConfig.best_exporter_metric", kExported},
      {"ExportConfig.cuda_matmul_allow_tf32", kPrecision},
      {"ExportConfig.cudnn_allow_tf32", kPrecision},
      {"ExportConfig.metric_larger_is_better", kExported},
      {"GroupedXAUC.max_pairs_per_group", "all pairs count"},
      {"ModelConfig.kernel", "kernels are chosen for the machine"},
      {"ParameterConstraints.compute_kernels", "placement says where rows are"},
      {"SequenceFeature.sequence_pk", "sequences are read from the data"},
      {"TrainConfig.cuda_matmul_allow_tf32", kPrecision},
      {"TrainConfig.cudnn_allow_tf32", kPrecision},
      {"TrainConfig.feature_store_config", "servers read delta_steps"},
      {"TrainConfig.is_profiling", "use emblem train --profile"},
      {"TrainConfig.save_checkpoints_timestamp_quorum", "all ranks save together"},
      {"TrainConfig.tensorboard_summaries", "all values are written"},
      {"XAUC.max_pairs", "all pairs count"},
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

void find(const Message& message, const std::string& path, std::vector<std::string>* found) {
  const Reflection* r = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  r->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string place = path.empty() ? field->name() : path + "." + field->name();
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

}  // namespace

std::vector<std::string> settings_without_effect(const config::PipelineConfig& config) {
  std::vector<std::string> found;
  find(config, "", &found);
  return found;
}

}  // namespace emblem
