#include "cli/pipeline_options.h"

#include "config/load/evaluation_input.h"
#include "config/load/load.h"
#include "core/files/output_file.h"
#include "core/system/interrupt.h"
#include "core/system/log.h"
#include "core/text/text.h"
#include "data/format/local_input.h"
#include "data/source/remote_storage.h"
#include "kafka/address.h"
#include "model/check/check.h"
#include "model/model.h"
#include "train/report/pass_bar.h"

namespace emblem {
namespace {

void add_override_options(Command& command, PipelineOptions& options) {
  add_input_options(command, options);
  command.repeatable("--set", options.set, "PATH=VALUE",
                     "Override a field: path.to[0].field=value (repeatable)");
  command
      .option("--max-bad-rows", options.max_bad_rows, "N",
              "Skip up to N unreadable rows (default: data_config.max_bad_rows)")
      .at_least(0)
      .hide_default();
}

// Overrides that come before --set, which may say something else of the data than of the
// checkpoint.
std::vector<std::string> remote_overrides(const RemoteArguments& remote) {
  std::vector<std::string> overrides;
  if (!remote.cache_dir.empty())
    overrides.push_back(cat("data_config.cache_dir=", remote.cache_dir));
  if (!remote.cache_size.empty())
    overrides.push_back(
        cat("data_config.cache_bytes=", parse_size(remote.cache_size, "--cache-size")));
  if (!remote.endpoint.empty()) overrides.push_back(cat("data_config.endpoint=", remote.endpoint));
  return overrides;
}

}  // namespace

void add_input_options(Command& command, PipelineOptions& options) {
  command.option(
      "--train-input", options.train_input, "PATH",
      "Files, folders or globs to train on, or kafka://BROKERS/TOPIC (default: train_input_path)");
  command.option("--eval-input", options.eval_input, "PATH",
                 "Files, folders or globs to evaluate on (default: eval_input_path)");
  command.repeatable("--define", options.define, "NAME=VALUE",
                     "Replace {NAME} in every text of the pipeline (repeatable)");
  add_remote_options(command, options.remote);
}

void add_remote_options(Command& command, RemoteArguments& remote) {
  command.option("--cache-dir", remote.cache_dir, "DIR",
                 "Where objects of s3://, gs:// and other stores are kept (default: EMBLEM_CACHE, "
                 "or the user's cache folder)");
  command.option("--cache-size", remote.cache_size, "BYTES",
                 "Limit of the cache folder, e.g. 200GB (default: 80 % of what is free)");
  command.option("--endpoint", remote.endpoint, "URL",
                 "Address of an S3- or GCS-compatible store, e.g. http://127.0.0.1:9000");
}

Storage open_storage(const RemoteArguments& remote) {
  RemoteOptions options;
  options.cache_dir = remote.cache_dir;
  options.endpoint = remote.endpoint;
  if (!remote.cache_size.empty())
    options.cache_bytes = parse_size(remote.cache_size, "--cache-size");
  return std::make_shared<RemoteStorage>(options);
}

void add_divide_option(Command& command, PipelineOptions& options) {
  command
      .option("--divide-tables", options.table_divisor, "N",
              "Give tables an Nth of their rows, to try a large pipeline on a small machine "
              "(default: train_config.divide_tables)")
      .at_least(1)
      .hide_default();
}

void add_config_options(Command& command, PipelineOptions& options, ConfigNeed need) {
  Option config =
      command.option("--config", options.config, "FILE", "Pipeline file (protobuf text)");
  if (need == ConfigNeed::kRequired) config.required();
  add_override_options(command, options);
  add_divide_option(command, options);
}

void add_checkpoint_options(Command& command, CheckpointOptions& options) {
  command
      .option("--checkpoint", options.checkpoint, "DIR",
              "Checkpoint, or model directory (its latest one)")
      .required();
  command.option("--config", options.config, "FILE",
                 "Pipeline file (default: the checkpoint's own)");
  add_override_options(command, options);
  add_device_options(command, options, Int8::kYes);
}

void add_filter_option(Command& command, std::vector<std::string>& filters) {
  command.repeatable("--filter", filters, "CONDITION",
                     "Read only rows of --input that fulfil this, as 'day >= 20261101' or 'country "
                     "in [de, fr]' (repeatable; default: all rows)");
}

void require_precision_of_device(const std::string& precision, const std::string& device) {
  EMBLEM_REQUIRE(precision != "fp16" || device == "cuda",
                 "--precision fp16 needs --device cuda; a CPU computes in fp32, bf16 or int8");
  EMBLEM_REQUIRE(precision != "int8" || device == "cpu",
                 "--precision int8 needs --device cpu; a GPU computes in fp32, bf16 or fp16");
}

void add_device_option(Command& command, PipelineOptions& options) {
  command.choice("--device", options.device, {"cpu", "cuda"}, "Where to compute");
}

void add_device_options(Command& command, PipelineOptions& options, Int8 int8) {
  add_device_option(command, options);
  std::vector<std::string> precisions = {"fp32", "bf16", "fp16"};
  if (int8 == Int8::kYes) precisions.push_back("int8");
  command.choice("--precision", options.precision, precisions,
                 "Compute layers in this type (default: train_config.mixed_precision, or fp32)");
  command
      .option("--threads", options.threads, "N",
              "Compute threads (0: train_config.num_threads, EMBLEM_THREADS, or all CPUs)")
      .range(0, 1024);
}

void add_profile_option(Command& command, std::string& path) {
  command.output("--profile", path,
                 "Write a timeline of CPU and GPU for ui.perfetto.dev to this file; slows down");
}

std::unique_ptr<Trace> make_trace(const std::string& path, const PipelineOptions& options) {
  if (path.empty()) return nullptr;
  return std::make_unique<Trace>(path, options.device == "cuda" ? Device::kCuda : Device::kCpu);
}

std::vector<std::string> pipeline_overrides(const PipelineOptions& options) {
  std::vector<std::string> overrides = remote_overrides(options.remote);
  overrides.insert(overrides.end(), options.set.begin(), options.set.end());
  if (!options.train_input.empty())
    overrides.push_back(cat("train_input_path=", options.train_input));
  if (!options.eval_input.empty()) overrides.push_back(cat("eval_input_path=", options.eval_input));
  if (options.table_divisor > 0)
    overrides.push_back(cat("train_config.divide_tables=", options.table_divisor));
  for (const std::string& definition : options.define) {
    const size_t equals = definition.find('=');
    EMBLEM_REQUIRE(equals != std::string::npos && equals > 0, "--define ", definition,
                   ": expected NAME=VALUE, such as PROJECT=mine");
    overrides.push_back(cat("{", definition.substr(0, equals), "}", definition.substr(equals)));
  }
  return overrides;
}

std::vector<std::string> overrides_of(const PipelineOptions& options) {
  std::vector<std::string> overrides = pipeline_overrides(options);
  if (options.max_bad_rows >= 0)
    overrides.push_back(cat("data_config.max_bad_rows=", options.max_bad_rows));
  if (options.precision.empty()) return overrides;
  require_precision_of_device(options.precision, options.device);
  overrides.push_back(cat("train_config.mixed_precision=",
                          mixed_precision_of(parse_dtype(options.precision).value())));
  return overrides;
}

void refuse_pipeline_file_as_output(const char* option, const std::string& output,
                                    const PipelineOptions& options) {
  if (!options.config.empty())
    refuse_input_as_output(option, output, std::span(&options.config, 1));
}

void refuse_pipeline_as_output(const char* option, const std::string& output,
                               const PipelineOptions& options,
                               const config::PipelineConfig& config) {
  refuse_pipeline_file_as_output(option, output, options);
  if (!is_kafka_address(config.train_input_path()))
    refuse_input_as_output(option, output, config.train_input_path());
  refuse_input_as_output(option, output, config.eval_input_path());
}

void refuse_input_or_checkpoint_as_output(const char* option, const std::string& output,
                                          const CheckpointOptions& options,
                                          const std::string& checkpoint, const std::string& input) {
  refuse_pipeline_file_as_output(option, output, options);
  refuse_input_as_output(option, output, input);
  refuse_output_in(option, output, checkpoint);
}

void refuse_two_endpoints(const CheckpointOptions& options, const std::string& checkpoint) {
  const std::string& given = options.remote.endpoint;
  if (given.empty() || !options.config.empty() || !is_object_uri(options.checkpoint)) return;
  constexpr const char* kSetting = "data_config.endpoint=";
  for (const std::string& set : options.set)
    if (set.starts_with(kSetting)) return;
  const config::PipelineConfig stored = load_stored_pipeline(checkpoint);
  const std::string& known = stored.data_config().endpoint();
  const bool reads_remote = has_remote_inputs(evaluation_input(stored));
  EMBLEM_REQUIRE(known.empty() || known == given || !reads_remote, "--endpoint ", given,
                 " has the checkpoint, but its configuration reads data at ", known,
                 "; say where they are with --set ", kSetting, known, " or --set ", kSetting,
                 given);
}

config::PipelineConfig load(const PipelineOptions& options) {
  config::PipelineConfig config = load_unchecked(options);
  check(config);
  return config;
}

config::PipelineConfig load_unchecked(const PipelineOptions& options) {
  config::PipelineConfig config = load_pipeline(options.config, overrides_of(options));
  if (!options.model_dir.empty()) config.set_model_dir(options.model_dir);
  return config;
}

void check(config::PipelineConfig& config) {
  check_pipeline(config);
  follow_local_files(&config);
  for (const std::string& warning : pipeline_warnings(config)) log_warn(warning);
}

void require_local_inputs(const config::PipelineConfig& config) {
  if (!is_kafka_address(config.train_input_path()))
    require_local("train_input_path", config.train_input_path(), "--train-input");
  require_local("eval_input_path", config.eval_input_path(), "--eval-input");
}

Workers make_workers(const PipelineOptions& options, uint32_t configured_threads) {
  require_precision_of_device(options.precision, options.device);
  const int threads = options.threads > 0 ? options.threads : static_cast<int>(configured_threads);
  return make_workers(options.device == "cuda" ? Device::kCuda : Device::kCpu, threads);
}

PassWatch watch_pass(const std::string& title) {
  return {CancelToken(interrupted), pass_bar(title)};
}

}  // namespace emblem
