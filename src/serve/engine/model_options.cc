#include "serve/engine/model_options.h"

#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <charconv>
#include <thread>

#include "config/load/parse_text.h"
#include "core/text/parse_number.h"
#include "emblem/error.h"
#include "serve/engine/hps/hps_options.h"
#include "serve/protocol/model_config.pb.h"

namespace emblem {
namespace {

constexpr int64_t kDefaultMaxBatch = 65536;
constexpr int kMostInstances = 1024;
constexpr int kMostThreads = 4096;  // threads of all instances
constexpr int64_t kLongestSloUs = 60'000'000;
constexpr int64_t kDefaultQueue = 4096;  // requests: what waits longer is better refused

[[noreturn]] void unsupported(const std::string& where, const std::string& what) {
  throw Error(ErrorCode::kUnsupported, cat(where, ": ", what, " is not supported"));
}

QueuePolicy queue_policy(const inference::ModelQueuePolicy& policy) {
  QueuePolicy result;
  result.at_timeout = policy.timeout_action() == inference::ModelQueuePolicy::DELAY
                          ? QueuePolicy::AtTimeout::kDelay
                          : QueuePolicy::AtTimeout::kReject;
  result.default_timeout = std::chrono::microseconds(policy.default_timeout_microseconds());
  result.allow_override = policy.allow_timeout_override();
  result.max_size = policy.max_queue_size();
  return result;
}

BatchOptions batch_options(const inference::ModelConfig& config, const std::string& where) {
  BatchOptions options;
  options.max_batch_rows = config.max_batch_size();
  options.dynamic = config.has_dynamic_batching();
  options.policy.max_size = kDefaultQueue;
  if (!options.dynamic) return options;
  const auto& batching = config.dynamic_batching();
  for (const int32_t size : batching.preferred_batch_size()) {
    EMBLEM_REQUIRE(size > 0 && size <= config.max_batch_size(), where, ": preferred_batch_size ",
                   size, " is not between 1 and max_batch_size ", config.max_batch_size());
    options.preferred.push_back(size);
  }
  options.max_delay = std::chrono::microseconds(batching.max_queue_delay_microseconds());
  options.priority_levels = batching.priority_levels();
  options.default_priority = batching.default_priority_level();
  EMBLEM_REQUIRE(options.priority_levels <= 1000, where, ": priority_levels is ",
                 options.priority_levels, "; expected at most 1000");
  EMBLEM_REQUIRE(options.default_priority <= options.priority_levels &&
                     (options.priority_levels == 0 || options.default_priority > 0),
                 where, ": default_priority_level is ", options.default_priority,
                 "; expected 1 to priority_levels, ", options.priority_levels);
  if (batching.has_default_queue_policy()) {
    options.policy = queue_policy(batching.default_queue_policy());
  }
  for (const auto& [priority, policy] : batching.priority_queue_policy()) {
    EMBLEM_REQUIRE(priority >= 1 && priority <= options.priority_levels, where,
                   ": priority_queue_policy for level ", priority, ", but there are ",
                   options.priority_levels, " levels");
    options.policies[priority] = queue_policy(policy);
  }
  return options;
}

std::chrono::microseconds parse_slo(const std::string& text, const std::string& where) {
  int64_t us = -1;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), us);
  EMBLEM_REQUIRE(
      problem == std::errc() && end == text.data() + text.size() && us >= 0 && us <= kLongestSloUs,
      where, ": parameter slo_p99_us is '", text, "'; expected microseconds, 1 to ", kLongestSloUs,
      ", or 0 for none");
  return std::chrono::microseconds(us);
}

// What would make other tensors of those of requests and of the model.
void refuse_changes_of_tensors(const inference::ModelConfig& config, const std::string& where) {
  if (!config.batch_input().empty()) unsupported(where, "batch_input");
  if (!config.batch_output().empty()) unsupported(where, "batch_output");
  const auto refuse = [&](const auto& tensors, const char* kind) {
    for (const auto& tensor : tensors) {
      if (tensor.has_reshape()) unsupported(where, cat(kind, " '", tensor.name(), "': reshape"));
      if (tensor.is_shape_tensor())
        unsupported(where, cat(kind, " '", tensor.name(), "': is_shape_tensor"));
    }
  };
  refuse(config.input(), "input");
  refuse(config.output(), "output");
  for (const auto& output : config.output())
    if (!output.label_filename().empty())
      unsupported(where, cat("output '", output.name(),
                             "': label_filename (classes are answered by number)"));
}

// The shape that config.pbtxt calls for is that of a row when the model batches.
template <class Tensors>
void compare_tensors(const Tensors& configured, const std::vector<TensorMetadata>& there,
                     bool batched, const char* kind, const std::string& where) {
  for (const auto& tensor : configured) {
    const auto found = std::find_if(there.begin(), there.end(), [&](const TensorMetadata& one) {
      return one.name == tensor.name();
    });
    EMBLEM_REQUIRE(found != there.end(), where, ": the model has no ", kind, " '", tensor.name(),
                   "'");
    const std::string type = inference::DataType_Name(tensor.data_type());
    EMBLEM_REQUIRE(type == config_name_of(found->type), where, ": ", kind, " '", tensor.name(),
                   "' is ", type, ", but the model's is ", config_name_of(found->type));
    std::vector<int64_t> dims(tensor.dims().begin(), tensor.dims().end());
    if (batched) dims.insert(dims.begin(), -1);
    EMBLEM_REQUIRE(dims == found->shape, where, ": ", kind, " '", tensor.name(), "' has shape ",
                   shape_text(dims), ", but the model's is ", shape_text(found->shape));
  }
}

}  // namespace

EngineCount engine_count(const inference::ModelConfig& config, const std::string& where) {
  EngineCount engines;
  if (config.instance_group_size() > 0) engines.instances = 0;
  for (const auto& group : config.instance_group()) {
    EMBLEM_REQUIRE(group.count() >= 0 && group.count() <= 256, where, ": an instance_group of ",
                   group.count(), " instances");
    engines.instances += std::max(1, group.count());
    EMBLEM_REQUIRE(engines.instances <= kMostInstances, where, ": the instance_groups have ",
                   engines.instances, " or more instances; expected at most ", kMostInstances);
  }
  if (const auto threads = config.parameters().find("threads");
      threads != config.parameters().end()) {
    engines.threads = parse_number<int>(threads->second.string_value()).value_or(0);
    EMBLEM_REQUIRE(engines.threads >= 1 && engines.threads <= 1024, where,
                   ": parameter threads is '", threads->second.string_value(),
                   "'; expected a number from 1 to 1024");
  }
  if (config.dynamic_batching().preserve_ordering()) engines.instances = 1;
  EMBLEM_REQUIRE(engines.instances * engines.threads <= kMostThreads, where, ": ",
                 engines.instances, " instances with ", engines.threads, " threads each have ",
                 engines.instances * engines.threads, " threads; expected at most ", kMostThreads);
  return engines;
}

void check_backend(const inference::ModelConfig& config, const std::string& where) {
  if (config.backend() == "hugectr")
    unsupported(where, "backend 'hugectr' (emblem convert-hugectr converts its models)");
  if (!config.backend().empty() && config.backend() != "emblem" && config.backend() != kHpsBackend)
    unsupported(where, cat("backend '", config.backend(), "' (expected emblem or hps)"));
  if (!config.platform().empty() && config.platform() != "emblem")
    unsupported(where, cat("platform '", config.platform(), "' (expected emblem)"));
}

ModelOptions model_options(const inference::ModelConfig& config, const Servable& servable,
                           const std::string& where) {
  check_backend(config, where);
  if (config.has_sequence_batching()) unsupported(where, "sequence_batching");
  if (config.has_ensemble_scheduling()) unsupported(where, "ensemble_scheduling");
  if (config.model_transaction_policy().decoupled()) unsupported(where, "a decoupled model");
  refuse_changes_of_tensors(config, where);
  EMBLEM_REQUIRE(config.max_batch_size() >= 0, where, ": max_batch_size is ",
                 config.max_batch_size());
  if (config.backend() != kHpsBackend) {  // whose tensors are of any size
    const bool batched = config.max_batch_size() > 0;
    compare_tensors(config.input(), servable.inputs(), batched, "input", where);
    compare_tensors(config.output(), servable.outputs(), batched, "output", where);
  }

  ModelOptions options;
  options.batching = batch_options(config, where);
  options.gpu = gpu_options(config, where);
  const EngineCount engines = engine_count(config, where);
  options.instances = engines.instances;
  options.threads = engines.threads;
  if (const auto slo = config.parameters().find("slo_p99_us"); slo != config.parameters().end()) {
    options.batching.slo_p99 = parse_slo(slo->second.string_value(), where);
    options.has_slo = true;
    EMBLEM_REQUIRE(options.batching.slo_p99.count() == 0 ||
                       (options.batching.dynamic && options.batching.max_batch_rows > 0),
                   where, ": parameter slo_p99_us needs dynamic_batching and a max_batch_size");
  }
  return options;
}

inference::ModelConfig default_model_config(const std::string& name, const Servable& servable) {
  inference::ModelConfig config;
  config.set_name(name);
  config.set_backend("emblem");
  config.set_max_batch_size(kDefaultMaxBatch);
  const auto fill = [](const TensorMetadata& from, auto* to) {
    inference::DataType type = inference::TYPE_INVALID;
    inference::DataType_Parse(config_name_of(from.type), &type);
    to->set_name(from.name);
    to->set_data_type(type);
    for (size_t i = 1; i < from.shape.size(); ++i) to->add_dims(from.shape[i]);
  };
  for (const TensorMetadata& input : servable.inputs()) fill(input, config.add_input());
  for (const TensorMetadata& output : servable.outputs()) fill(output, config.add_output());
  auto* group = config.add_instance_group();
  group->set_kind(inference::ModelInstanceGroup::KIND_CPU);
  group->set_count(static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
  config.mutable_dynamic_batching()->mutable_default_queue_policy()->set_max_queue_size(
      kDefaultQueue);
  for (const auto& [key, value] : servable.parameters())
    (*config.mutable_parameters())[key].set_string_value(value);
  return config;
}

inference::ModelConfig parse_model_config(const std::string& text, const std::string& file) {
  inference::ModelConfig config;
  parse_text(text, {.file = file, .owner = "ModelConfig"}, &config);
  return config;
}

inference::ModelConfig parse_model_config_json(const std::string& json, const std::string& where) {
  inference::ModelConfig config;
  const auto status = google::protobuf::util::JsonStringToMessage(json, &config);
  const std::string problem(status.message());  // further lines quote the JSON
  EMBLEM_REQUIRE(status.ok(), where, ": the configuration is not a ModelConfig in JSON: ",
                 problem.substr(0, problem.find('\n')));
  return config;
}

std::string to_text(const inference::ModelConfig& config) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(config, &text);
  return text;
}

std::vector<int64_t> choose_versions(const inference::ModelConfig& config,
                                     const std::vector<int64_t>& there, const std::string& where) {
  const auto& policy = config.version_policy();
  if (policy.has_all()) return there;
  if (policy.has_specific()) {
    std::vector<int64_t> chosen(policy.specific().versions().begin(),
                                policy.specific().versions().end());
    std::sort(chosen.begin(), chosen.end());
    for (const int64_t version : chosen) {
      EMBLEM_REQUIRE(std::binary_search(there.begin(), there.end(), version), where,
                     ": version_policy asks for version ", version, ", which has no folder");
    }
    return chosen;
  }
  const size_t wanted = policy.has_latest() ? std::max(1u, policy.latest().num_versions()) : 1;
  return {there.end() - static_cast<std::ptrdiff_t>(std::min(wanted, there.size())), there.end()};
}

}  // namespace emblem
