#include "serve/engine/hps/hps_options.h"

#include <algorithm>
#include <span>

#include "core/device/device.h"
#include "core/device/gpu.h"
#include "core/system/log.h"
#include "core/text/joined.h"
#include "serve/engine/model_parameters.h"
#include "serve/protocol/model_config.pb.h"

namespace emblem {
namespace {

// Parameters of config.pbtxt that have an effect on a GPU, and those that always have.
constexpr const char* kOnGpu[] = {"gpucacheper",   "cache_size_percentage", "hit_rate_threshold",
                                  "refresh_delay", "refresh_interval",      "cache_bytes",
                                  "cache_policy"};
constexpr const char* kAlways[] = {"gpucache", "threads"};

bool is_among(const std::string& name, std::span<const char* const> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

double seconds(const inference::ModelConfig& config, const char* name, const std::string& where) {
  const std::string* text = find_parameter(config, name);
  if (text == nullptr) return 0.0;
  const double value = number_of(*text, name, where);
  EMBLEM_REQUIRE(value >= 0, where, ": parameter ", name, " is ", *text, "; expected 0 or more");
  return value;
}

// Why no GPU can be used; empty: one can.
std::string gpu_problem() {
  try {
    dispatch(
        Device::kCuda, [] {}, [] { cuda::require_usable_gpu(); });
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

bool runs_on_gpu(const inference::ModelConfig& config, const GpuOptions& gpu, const PsModel& model,
                 const std::string& where) {
  if (!gpu.used) return false;
  const std::string* cached = find_parameter(config, "gpucache");
  if (cached != nullptr ? *cached == "false" : !model.gpucache) {
    log_info(cat(where, ": gpucache is false; the model runs on the CPU"));
    return false;
  }
  const std::string problem = gpu_problem();
  if (problem.empty()) return true;
  log_info(cat(
      where, ": the model runs on the CPU, where KIND_GPU and gpucache have no effect: ", problem));
  return false;
}

void log_without_effect(const inference::ModelConfig& config, bool on_gpu,
                        const std::string& where) {
  std::vector<std::string> names;
  for (const auto& [name, value] : config.parameters()) {
    if (!is_among(name, kAlways) && !(on_gpu && is_among(name, kOnGpu))) names.push_back(name);
  }
  if (names.empty()) return;
  std::sort(names.begin(), names.end());
  log_info(cat(where, ": parameters without effect: ", joined(names)));
}

// What config.pbtxt says of a tensor, whose shape is any, or the default.
template <class Tensors>
TensorMetadata described(const Tensors& tensors, const char* name, DataType type, bool batched,
                         const std::string& where) {
  std::vector<int64_t> shape = {-1};
  for (const auto& tensor : tensors) {
    if (tensor.name() != name) continue;
    const std::string found = inference::DataType_Name(tensor.data_type());
    EMBLEM_REQUIRE(found == config_name_of(type), where, ": '", name, "' is ", found,
                   "; backend hps has ", config_name_of(type));
    if (tensor.dims_size() > 0) shape.assign(tensor.dims().begin(), tensor.dims().end());
  }
  if (batched) shape.insert(shape.begin(), -1);
  return {name, type, std::move(shape)};
}

template <class Tensors>
void check_names(const Tensors& tensors, std::span<const char* const> names, const char* kind,
                 const std::string& where) {
  for (const auto& tensor : tensors) {
    EMBLEM_REQUIRE(is_among(tensor.name(), names), where, ": ", kind, " '", tensor.name(),
                   "'; backend hps has the inputs ", kHpsKeys, " and ", kHpsCounts,
                   " and the output ", kHpsRows);
  }
}

}  // namespace

HpsOptions hps_options(const inference::ModelConfig& config, const PsModel& model,
                       const std::string& where) {
  HpsOptions options;
  const char* const inputs[] = {kHpsKeys, kHpsCounts};
  const char* const outputs[] = {kHpsRows};
  check_names(config.input(), inputs, "input", where);
  check_names(config.output(), outputs, "output", where);
  const bool batched = config.max_batch_size() > 0;
  options.inputs = {described(config.input(), kHpsKeys, DataType::kInt64, batched, where),
                    described(config.input(), kHpsCounts, DataType::kInt32, batched, where)};
  options.outputs = {described(config.output(), kHpsRows, DataType::kFp32, batched, where)};

  options.cache = gpu_options(config, where);
  EMBLEM_REQUIRE(options.cache.used || options.cache.precision == DType::kF32, where,
                 ": precision ", name_of(options.cache.precision),
                 " needs an instance_group of KIND_GPU; on a CPU, rows are read in fp32");
  apply_ps_model(model, config, options.cache);
  options.on_gpu = runs_on_gpu(config, options.cache, model, where);
  options.refresh_share = model.cache_refresh_percentage_per_iteration;
  options.fill = model.init_ec && options.refresh_share > 0;
  if (model.use_static_table || model.embedding_cache_type == "static") {  // all rows
    options.cache.cache_share = 1.0;
    options.cache.hit_rate_threshold = 2.0;
    options.fill = true;
  }
  options.refresh_delay_s = seconds(config, "refresh_delay", where);
  options.refresh_interval_s = seconds(config, "refresh_interval", where);
  log_without_effect(config, options.on_gpu, where);
  return options;
}

}  // namespace emblem
