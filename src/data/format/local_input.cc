#include "data/format/local_input.h"

#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "data/format/reader.h"
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

bool is_parquet(const std::string& path) {
  for (const std::string& file : expand_paths(path))
    if (file.ends_with(".parquet")) return true;
  return false;
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
  return path.starts_with("odps://") || path.starts_with("kafka://");
}

void require_local(const std::string& setting, const std::string& path, const std::string& option) {
  EMBLEM_REQUIRE(!is_remote(path), setting, " is \"", printable(path),
                 "\", a table of a service that Emblem does not read; give files with ", option,
                 " PATH");
}

config::DatasetType dataset_type_for(const std::string& path) {
  EMBLEM_REQUIRE(!is_parquet(path), path,
                 " holds Parquet files, which are not supported yet; convert them to CSV with a "
                 "header");
  return guess_format(path);
}

void follow_local_files(config::PipelineConfig* config) {
  config::DataConfig& data = *config->mutable_data_config();
  if (!names_a_service(data.dataset_type())) return;
  const std::string& train = config->train_input_path();
  const std::string& path = train.empty() || is_remote(train) ? config->eval_input_path() : train;
  if (path.empty() || is_remote(path)) return;
  const config::DatasetType type = dataset_type_for(path);
  if (type == config::CsvDataset) {
    const DataSource source = guess_source(path, hints_of(data));
    data.set_delimiter(source.delimiter);
    data.set_with_header(source.with_header);
  }
  log_info(cat("dataset_type is ", config::DatasetType_Name(data.dataset_type()), "; ", path,
               " is read as ", config::DatasetType_Name(type)));
  data.set_dataset_type(type);
}

}  // namespace emblem
