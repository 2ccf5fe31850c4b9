#include "serve/engine/hps/gpu_options.h"

#include <algorithm>

#include "core/text/text.h"
#include "emblem/error.h"
#include "serve/engine/hps/hps_options.h"
#include "serve/engine/model_parameters.h"
#include "serve/protocol/model_config.pb.h"

namespace emblem {
namespace {

bool has_cache_share(const inference::ModelConfig& config) {
  return find_parameter(config, "cache_size_percentage") != nullptr ||
         find_parameter(config, "gpucacheper") != nullptr;
}

}  // namespace

GpuOptions gpu_options(const inference::ModelConfig& config, const std::string& where) {
  GpuOptions options;
  int64_t others = 0;
  for (const auto& group : config.instance_group()) {
    if (group.kind() == inference::ModelInstanceGroup::KIND_GPU)
      options.used = true;
    else
      ++others;
    for (const int gpu : group.gpus())
      EMBLEM_REQUIRE(gpu == 0 || config.backend() == kHpsBackend, where,
                     ": an instance_group on GPU ", gpu, "; only 0 is used");
  }
  EMBLEM_REQUIRE(!options.used || others == 0, where,
                 ": instance groups of KIND_GPU and of other kinds; expected one of them");
  if (const std::string* text = find_parameter(config, "precision")) {
    const std::optional<DType> precision = parse_dtype(*text);
    EMBLEM_REQUIRE(precision.has_value(), where, ": parameter precision is '", *text,
                   "'; expected fp32, bf16, fp16 or int8");
    options.precision = *precision;
    options.precision_is_given = true;
    EMBLEM_REQUIRE(options.used || options.precision != DType::kF16, where, ": precision ", *text,
                   " needs an instance_group of KIND_GPU; a CPU computes in fp32, bf16 or int8");
    EMBLEM_REQUIRE(!options.used || options.precision != DType::kInt8, where,
                   ": precision int8 is for CPUs; a GPU computes in fp32, bf16 or fp16");
  }
  for (const char* name : {"cache_size_percentage", "gpucacheper"}) {
    const std::string* text = find_parameter(config, name);
    if (text == nullptr) continue;
    options.cache_share = number_of(*text, name, where);
    EMBLEM_REQUIRE(options.cache_share > 0 && options.cache_share <= 1, where, ": parameter ", name,
                   " is ", *text, "; expected a share above 0 and at most 1");
  }
  if (const std::string* text = find_parameter(config, "cache_bytes"))
    options.cache_bytes = parse_size(*text, where + ": parameter cache_bytes");
  if (const std::string* text = find_parameter(config, "cache_policy")) {
    EMBLEM_REQUIRE(*text == "lru" || *text == "lfu", where, ": parameter cache_policy is '", *text,
                   "'; expected lru or lfu");
    options.cache_policy = *text == "lfu" ? CachePolicy::kLfu : CachePolicy::kLru;
  }
  if (const std::string* text = find_parameter(config, "hit_rate_threshold"))
    options.hit_rate_threshold = number_of(*text, "hit_rate_threshold", where);
  if (config.max_batch_size() > 0)
    options.max_rows = std::min<int64_t>(options.max_rows, config.max_batch_size());
  return options;
}

void apply_ps_model(const PsModel& model, const inference::ModelConfig& config,
                    GpuOptions& options) {
  if (!has_cache_share(config))
    options.cache_share = std::max(model.gpucacheper, 1e-9);  // 0: the smallest cache
  if (find_parameter(config, "hit_rate_threshold") == nullptr)
    options.hit_rate_threshold = model.hit_rate_threshold;
}

void set_precision(inference::ModelConfig& config, const std::string& precision) {
  const bool is_unused = config.backend() == kHpsBackend && config.instance_group().empty();
  if (!precision.empty() && !is_unused)
    (*config.mutable_parameters())["precision"].set_string_value(precision);
}

void move_to_gpu(inference::ModelConfig& config) {
  int count = 0;
  for (const auto& group : config.instance_group()) {
    if (group.kind() == inference::ModelInstanceGroup::KIND_GPU)
      count += std::max(1, group.count());
  }
  config.clear_instance_group();
  auto* group = config.add_instance_group();
  group->set_kind(inference::ModelInstanceGroup::KIND_GPU);
  group->set_count(std::max(1, count));
}

}  // namespace emblem
