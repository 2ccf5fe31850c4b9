// bench/loader/setting.h - the settings that a loader benchmark compares.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/proto/pipeline.pb.h"
#include "data/loader/loader.h"
#include "data/loader/read_ahead.h"

namespace emblem {

// Whether the files are in the page cache when timing starts (remote inputs: in the cache folder
// as well).
enum class CacheState { kWarm, kCold };

// The values of each setting. All combinations are measured; an empty axis keeps the configured
// value.
struct LoaderAxes {
  // "PATH" or "LABEL=PATH", the path as in train_input_path; its format is detected. Empty: the
  // configured input.
  std::vector<std::string> inputs;
  std::vector<int> workers;  // empty: 1, 2, 4, ... up to the number of CPUs
  std::vector<int64_t> batches;
  std::vector<int> prefetch;
  std::vector<bool> shuffle;
  std::vector<double> sample_ratios;
  std::vector<CacheState> caches = {CacheState::kWarm};
  // For remote inputs:
  std::vector<int> connections;     // data_config.download_threads
  std::vector<int64_t> part_bytes;  // data_config.part_bytes
};

struct LoaderSetting {
  std::string label;        // name of the input
  std::string format;       // "tsv", "csv", "raw", "split", "libfm"
  config::DataConfig data;  // configuration of the input
  LoaderOptions loading;
  CacheState cache = CacheState::kWarm;

  bool is_remote() const { return has_remote_inputs(loading.input); }
  // "raw-w2-b8192-p8", with "-shuffled", "-r0.5" and "-cold" if they apply; remote inputs add
  // "-c16-8MiB".
  std::string name() const;
};

// Settings in the order of the axes, the last varying fastest. Throws Error for an input whose
// format cannot be detected, and for invalid values.
std::vector<LoaderSetting> loader_settings(const config::PipelineConfig& config,
                                           const LoaderAxes& axes);

}  // namespace emblem
