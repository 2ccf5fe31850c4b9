#include "data/format/local_input.h"

#include "core/log.h"
#include "core/text.h"
#include "data/format/reader.h"
#include "data/source/remote_storage.h"
#include "emblem/error.h"
#include "kafka/address.h"

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

config::DatasetType dataset_type_for(const std::string& path) { return guess_format(path); }

void follow_files(const std::string& path, config::DataConfig* data) {
  const config::DatasetType type = dataset_type_for(path);
  if (type == config::CsvDataset) {
    const DataSource source = guess_source(path, hints_of(*data));
    data->set_delimiter(source.delimiter);
    data->set_with_header(source.with_header);
  }
  data->set_dataset_type(type);
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
