#include "serve/engine/without_effect.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "core/system/log.h"
#include "core/text/joined.h"
#include "core/text/text.h"
#include "emblem/error.h"
#include "serve/engine/hps/hps_options.h"

namespace emblem {
namespace {

// Of one warning: clients choose how many parameters there are, and their names.
constexpr size_t kMostNamed = 20, kLongestNamed = 80;

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Fields that are used or refused. Those inside of other messages are, too.
const std::map<std::string, std::set<std::string>>& obeyed_fields() {
  static const std::map<std::string, std::set<std::string>> kObeyed = {
      {"ModelConfig",
       {"name", "platform", "backend", "version_policy", "max_batch_size", "input", "output",
        "batch_input", "batch_output", "dynamic_batching", "sequence_batching",
        "ensemble_scheduling", "instance_group", "parameters", "model_transaction_policy"}},
      {"ModelInput", {"name", "data_type", "dims", "reshape", "is_shape_tensor"}},
      {"ModelOutput",
       {"name", "data_type", "dims", "reshape", "is_shape_tensor", "label_filename"}},
      {"ModelInstanceGroup", {"kind", "count", "gpus"}},
  };
  return kObeyed;
}

class Collector {
 public:
  void add(const std::string& setting) {
    if (std::ranges::find(settings_, setting) == settings_.end()) settings_.push_back(setting);
  }

  // `path` begins the names of the message's fields.
  void add_fields(const Message& message, const std::string& path) {
    const std::set<std::string>& obeyed = obeyed_fields().at(message.GetDescriptor()->name());
    std::vector<const FieldDescriptor*> fields;
    message.GetReflection()->ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      if (!obeyed.contains(field->name()))
        add(path + field->name());
      else if (field->is_repeated() && field->message_type() != nullptr &&
               obeyed_fields().contains(field->message_type()->name()))
        add_repeated(message, *field);
    }
  }

  std::vector<std::string> settings() && { return std::move(settings_); }

 private:
  void add_repeated(const Message& message, const FieldDescriptor& field) {
    for (int i = 0; i < message.GetReflection()->FieldSize(message, &field); ++i)
      add_fields(message.GetReflection()->GetRepeatedMessage(message, &field, i),
                 field.name() + ".");
  }

  std::vector<std::string> settings_;
};

void add_parameters(const inference::ModelConfig& config, const Servable& servable, bool on_gpu,
                    Collector& collector) {
  std::vector<std::string> used = {"precision", "slo_p99_us", "threads"};
  if (on_gpu) {
    for (const char* name : {"cache_bytes", "cache_policy", "cache_size_percentage", "gpucacheper",
                             "hit_rate_threshold"})
      used.emplace_back(name);
  }
  std::set<std::string> of_model;  // descriptions that exports contain
  for (const auto& [name, value] : servable.parameters()) of_model.insert(name);
  std::set<std::string> others;
  for (const auto& [name, value] : config.parameters())
    if (std::ranges::find(used, name) == used.end() && !of_model.contains(name))
      others.insert(name);
  for (const std::string& name : others) {
    const std::string shown = name.substr(0, kLongestNamed);
    const auto nearest = nearest_name(shown, used);
    collector.add(cat("parameters[\"", printable(shown), "\"]",
                      nearest ? cat(" (did you mean \"", *nearest, "\"?)") : ""));
  }
}

}  // namespace

std::vector<std::string> without_effect(const inference::ModelConfig& config,
                                        const Servable& servable) {
  Collector collector;
  collector.add_fields(config, "");
  bool on_gpu = false;
  for (const auto& group : config.instance_group()) {
    const bool is_gpu = group.kind() == inference::ModelInstanceGroup::KIND_GPU;
    on_gpu = on_gpu || is_gpu;
    for (const int gpu : group.gpus()) {
      if (!is_gpu)
        collector.add("instance_group.gpus (kind is not KIND_GPU)");
      else if (gpu != 0)
        collector.add("instance_group.gpus (only GPU 0 is used)");
    }
  }
  if (config.has_dynamic_batching() && config.max_batch_size() == 0)
    collector.add("dynamic_batching (max_batch_size is 0)");
  if (config.backend() != kHpsBackend) add_parameters(config, servable, on_gpu, collector);
  return std::move(collector).settings();
}

void warn_of_settings_without_effect(const inference::ModelConfig& config, const Servable& servable,
                                     const std::string& where) {
  const std::vector<std::string> settings = without_effect(config, servable);
  if (settings.empty()) return;
  const std::span named(settings.begin(), std::min(settings.size(), kMostNamed));
  const size_t more = settings.size() - named.size();
  log_warn(cat(where, ": settings without effect: ", joined(named),
               more > 0 ? cat(" and ", more, " more") : ""));
}

}  // namespace emblem
