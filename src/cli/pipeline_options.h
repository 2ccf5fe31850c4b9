// cli/pipeline_options.h - options of all commands that use a pipeline.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "config/proto/pipeline.pb.h"
#include "core/device/workers.h"
#include "core/system/trace.h"
#include "data/source/storage.h"
#include "train/predict/pass_watch.h"

namespace emblem {

// Options for data in remote stores; empty: as configured.
struct RemoteArguments {
  std::string cache_dir, cache_size, endpoint;
};

struct PipelineOptions {
  std::string config;
  std::string model_dir;
  std::string device = "cpu";
  std::string precision;  // empty: as configured
  int threads = 0;        // 0: as configured, or one per CPU
  std::vector<std::string> set;
  std::vector<std::string> define;      // NAME=VALUE
  std::string train_input, eval_input;  // empty: as configured
  int64_t table_divisor = 0;            // 0: as configured
  int64_t max_bad_rows = -1;            // as the configuration says
  RemoteArguments remote;
};

// Options of commands that use a trained model; `config` empty: that of the checkpoint.
struct CheckpointOptions : PipelineOptions {
  std::string checkpoint;
};

// --define, --train-input, --eval-input, and those of add_remote_options
void add_input_options(Command& command, PipelineOptions& options);
// --cache-dir, --cache-size, --endpoint
void add_remote_options(Command& command, RemoteArguments& remote);
// Remote stores with these settings, for what no pipeline describes: checkpoints, exports, inputs
// of conversions.
Storage open_storage(const RemoteArguments& remote);
// --divide-tables
void add_divide_option(Command& command, PipelineOptions& options);
// --config, --set, --max-bad-rows, and those above
enum class ConfigNeed { kRequired, kOptional };
void add_config_options(Command& command, PipelineOptions& options,
                        ConfigNeed need = ConfigNeed::kRequired);
// --checkpoint, --config, --set, --define, --train-input, --eval-input, --max-bad-rows, --device,
// --precision, --threads
void add_checkpoint_options(Command& command, CheckpointOptions& options);
// --filter
void add_filter_option(Command& command, std::vector<std::string>& filters);
// --device
void add_device_option(Command& command, PipelineOptions& options);
// --device, --precision, --threads
enum class Int8 { kNo, kYes };
void add_device_options(Command& command, PipelineOptions& options, Int8 int8 = Int8::kNo);
// Throws for a --precision that the device does not compute in.
void require_precision_of_device(const std::string& precision, const std::string& device);

// --profile
void add_profile_option(Command& command, std::string& path);
// A started trace if --profile was given; else null.
std::unique_ptr<Trace> make_trace(const std::string& path, const PipelineOptions& options);

// The configuration with overrides applied, checked.
config::PipelineConfig load(const PipelineOptions& options);
// The same in two steps. check() throws for errors, logs warnings, and lets dataset_type follow
// local files (data/format/local_input.h).
config::PipelineConfig load_unchecked(const PipelineOptions& options);
void check(config::PipelineConfig& config);
// Throws unless both inputs are on this machine.
void require_local_inputs(const config::PipelineConfig& config);
// --define, --set, --train-input, --eval-input and --divide-tables as overrides of a configuration.
std::vector<std::string> pipeline_overrides(const PipelineOptions& options);
// These, --precision and --max-bad-rows.
std::vector<std::string> overrides_of(const PipelineOptions& options);

// Throws when `output`, the file that `option` names, is the pipeline file.
void refuse_pipeline_file_as_output(const char* option, const std::string& output,
                                    const PipelineOptions& options);
// The same, and for parts of the data that the pipeline reads.
void refuse_pipeline_as_output(const char* option, const std::string& output,
                               const PipelineOptions& options,
                               const config::PipelineConfig& config);

// The same for a command that reads `input` and a checkpoint.
void refuse_input_or_checkpoint_as_output(const char* option, const std::string& output,
                                          const CheckpointOptions& options,
                                          const std::string& checkpoint, const std::string& input);

// Throws when --endpoint is given for a checkpoint in a store, but its configuration reads data at
// another endpoint: which one is meant for them must be said. For commands that were given no data.
void refuse_two_endpoints(const CheckpointOptions& options, const std::string& checkpoint);

// A context on the chosen device, with its threads and stream. Throws with the reason if --device
// cuda is not available.
Workers make_workers(const PipelineOptions& options, uint32_t configured_threads);

// Shows the progress of a pass over data as a bar under `title`; a signal cancels the pass.
PassWatch watch_pass(const std::string& title);

}  // namespace emblem
