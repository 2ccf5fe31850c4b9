#include "bench/loader/setting.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/text/text.h"
#include "core/threads/thread_pool.h"
#include "data/format/reader.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

struct Input {
  std::string label, format, path;
  config::DataConfig data;
};

std::string short_name(config::DatasetType type) {
  switch (type) {
    case config::CriteoTsvDataset:
      return "tsv";
    case config::RawDataset:
      return "raw";
    case config::SplitDataset:
      return "split";
    case config::LibfmDataset:
      return "libfm";
    case config::ParquetDataset:
      return "parquet";
    case config::OrcDataset:
      return "orc";
    case config::ArrowDataset:
      return "arrow";
    default:
      return "csv";
  }
}

// The format of the first path, which all paths must have.
Input describe(const std::string& text, const config::DataConfig& base) {
  Input input;
  const size_t equals = text.find('=');
  if (equals != std::string::npos) input.label = text.substr(0, equals);
  input.path = equals == std::string::npos ? text : text.substr(equals + 1);
  EMBLEM_REQUIRE(!input.path.empty(), "--input \"", text,
                 "\" names no path; expected PATH or LABEL=PATH");
  const std::string first(trim(split(input.path, ',').front()));
  const DataSource source = guess_source(first, {}, open_storage(base));
  input.data = base;
  input.data.set_dataset_type(source.type);
  if (source.type == config::CsvDataset && base.dataset_type() != config::CsvDataset) {
    input.data.set_delimiter(source.delimiter);
    input.data.set_with_header(source.with_header);
  }
  input.format = short_name(source.type);
  return input;
}

// Default labels: the format or, if that is not unique, the path.
void add_labels(std::vector<Input>& inputs) {
  for (Input& input : inputs) {
    if (!input.label.empty()) continue;
    const auto same = std::count_if(inputs.begin(), inputs.end(), [&](const Input& other) {
      return other.format == input.format;
    });
    input.label = same == 1 ? input.format : input.path;
  }
}

std::vector<Input> inputs_of(const config::PipelineConfig& config, const LoaderAxes& axes) {
  const config::DataConfig& data = config.data_config();
  std::vector<Input> inputs;
  for (const std::string& text : axes.inputs) inputs.push_back(describe(text, data));
  if (inputs.empty())
    inputs.push_back({"", short_name(data.dataset_type()), config.train_input_path(), data});
  add_labels(inputs);
  return inputs;
}

std::vector<int> powers_of_two_up_to(int most) {
  std::vector<int> powers;
  for (int power = 1; power <= most; power *= 2) powers.push_back(power);
  return powers;
}

template <class T>
std::vector<T> or_else(const std::vector<T>& axis, T configured) {
  return axis.empty() ? std::vector<T>{configured} : axis;
}

// "8MiB", "64KiB"
std::string format_part(uint64_t bytes) {
  return bytes % (1 << 20) == 0 ? cat(bytes >> 20, "MiB") : cat(bytes >> 10, "KiB");
}

void check(const LoaderAxes& axes) {
  for (const int workers : axes.workers)
    EMBLEM_REQUIRE(workers > 0, "--workers has ", workers, "; expected at least 1");
  for (const int64_t batch : axes.batches)
    EMBLEM_REQUIRE(batch > 0, "--batch has ", batch, "; expected at least 1");
  for (const int depth : axes.prefetch)
    EMBLEM_REQUIRE(depth > 0, "--prefetch has ", depth, "; expected at least 1");
  for (const int threads : axes.connections)
    EMBLEM_REQUIRE(threads > 0, "--connections has ", threads, "; expected at least 1");
}

// The settings of `setting` for every combination of connections and parts.
void add_downloads(const LoaderSetting& setting, const LoaderAxes& axes,
                   std::vector<LoaderSetting>& settings) {
  if (!setting.is_remote()) return settings.push_back(setting);
  for (const int threads :
       or_else(axes.connections, static_cast<int>(setting.data.download_threads())))
    for (const int64_t bytes :
         or_else(axes.part_bytes, static_cast<int64_t>(setting.data.part_bytes()))) {
      LoaderSetting& added = settings.emplace_back(setting);
      added.data.set_download_threads(static_cast<uint32_t>(threads));
      added.data.set_part_bytes(static_cast<uint64_t>(bytes));
    }
}

}  // namespace

std::string LoaderSetting::name() const {
  std::string text =
      cat(label, "-w", loading.workers, "-b", loading.batch_size, "-p", loading.prefetch_batches);
  if (loading.shuffle) text += "-shuffled";
  if (loading.sample_ratio < 1) text += fmt::format("-r{:g}", loading.sample_ratio);
  if (is_remote())
    text += fmt::format("-c{}-{}", data.download_threads(), format_part(data.part_bytes()));
  if (cache == CacheState::kCold) text += "-cold";
  return text;
}

std::vector<LoaderSetting> loader_settings(const config::PipelineConfig& config,
                                           const LoaderAxes& axes) {
  check(axes);
  const LoaderOptions base = training_loader_options(config);
  const auto workers = axes.workers.empty() ? powers_of_two_up_to(available_cpus()) : axes.workers;
  std::vector<LoaderSetting> settings;
  const auto add = [&](const Input& input, bool shuffle, double ratio, CacheState cache) {
    for (const int threads : workers)
      for (const int64_t rows : or_else(axes.batches, base.batch_size))
        for (const int depth : or_else(axes.prefetch, base.prefetch_batches)) {
          LoaderSetting setting{input.label, input.format, input.data, base, cache};
          LoaderOptions& loading = setting.loading;
          loading.input = input.path;
          loading.workers = threads;
          loading.batch_size = rows;
          loading.prefetch_batches = depth;
          loading.shuffle = shuffle;
          loading.shuffle_rows = config.data_config().shuffle_buffer_size() * rows;
          loading.sample_ratio = ratio;
          add_downloads(setting, axes, settings);
        }
  };
  for (const Input& input : inputs_of(config, axes))
    for (const bool shuffle : or_else(axes.shuffle, base.shuffle))
      for (const double ratio : or_else(axes.sample_ratios, base.sample_ratio))
        for (const CacheState cache : axes.caches) add(input, shuffle, ratio, cache);
  return settings;
}

}  // namespace emblem
