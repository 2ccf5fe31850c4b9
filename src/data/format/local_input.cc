#include "data/format/local_input.h"

#include "config/feature/items.h"
#include "config/load/evaluation_input.h"
#include "core/system/log.h"
#include "core/text/text.h"
#include "data/format/reader.h"
#include "data/source/remote_storage.h"
#include "emblem/error.h"

namespace emblem {
namespace {

bool names_a_service(config::DatasetType type) {
  switch (type) {
    case config::OdpsDataset:
    case config::OdpsDatasetV1:
    case config::ParquetDataset:
    case config::KafkaDataset:
      return true;
    default:
      return false;
  }
}

bool is_text(config::DatasetType type) {
  return type == config::CsvDataset || type == config::CriteoTsvDataset ||
         type == config::LibfmDataset;
}

CsvHints hints_of(const config::DataConfig& data) {
  CsvHints hints;
  if (data.has_delimiter()) hints.delimiter = data.delimiter();
  if (data.has_with_header()) hints.with_header = data.with_header();
  if (data.label_fields_size() > 0) hints.known_column = data.label_fields(0);
  return hints;
}

}  // namespace

bool is_remote(const std::string& path) {
  return path.starts_with("odps://") || is_kafka_address(path);
}

void require_local(const std::string& setting, const std::string& path, const std::string& option) {
  EMBLEM_REQUIRE(!is_kafka_address(path), setting, " is \"",
                 printable(path.substr(0, path.find('?'))),
                 "\", a stream, which can be trained on only; give files with ", option, " PATH");
  EMBLEM_REQUIRE(!is_remote(path), setting, " is \"", printable(path),
                 "\", a table of a service that Emblem does not read; give files with ", option,
                 " PATH");
}

config::DatasetType dataset_type_for(const std::string& path, const Storage& storage) {
  return guess_format(path, storage);
}

void follow_files(const std::string& path, config::DataConfig* data, Storage storage) {
  if (storage == nullptr && has_remote_inputs(path)) storage = open_storage(*data);
  const config::DatasetType type = dataset_type_for(path, storage);
  if (type == config::CsvDataset) {
    const DataSource source = guess_source(path, hints_of(*data), storage);
    data->set_delimiter(source.delimiter);
    data->set_with_header(source.with_header);
  }
  data->set_dataset_type(type);
}

bool follow_input(const std::string& path, config::DataConfig* data, Storage storage) {
  if (path.empty() || is_remote(path)) return false;
  if (storage == nullptr && has_remote_inputs(path)) storage = open_storage(*data);
  const config::DatasetType configured = data->dataset_type();
  const auto known = known_format(path, storage);
  if (is_text(configured) && (!known || is_text(*known))) {
    // A file of the configured format may have any name.
    const bool is_named_csv = known == config::CsvDataset && configured != config::CsvDataset;
    if (!is_named_csv || !guess_source(path, {}, storage).with_header) return false;
  }
  if (known == configured) return false;
  follow_files(path, data, storage);
  return data->dataset_type() != configured;
}

config::PipelineConfig for_evaluation(config::PipelineConfig config, Storage storage) {
  if (!has_holdout(config))
    follow_input(config.eval_input_path(), config.mutable_data_config(), std::move(storage));
  sample_for_evaluation(config.mutable_data_config());
  return config;
}

void follow_local_files(config::PipelineConfig* config) {
  config::DataConfig& data = *config->mutable_data_config();
  const config::DatasetType configured = data.dataset_type();
  if (!names_a_service(configured)) return;
  const std::string& train = config->train_input_path();
  if (configured == config::KafkaDataset && is_kafka_address(train)) return;
  const std::string& path = train.empty() || is_remote(train) ? config->eval_input_path() : train;
  if (path.empty() || is_remote(path)) return;
  follow_files(path, &data);
  if (data.dataset_type() == configured) return;
  log_info(cat("dataset_type is ", config::DatasetType_Name(configured), "; ", path, " is read as ",
               config::DatasetType_Name(data.dataset_type())));
}

}  // namespace emblem
