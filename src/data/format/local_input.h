// data/format/local_input.h - pipelines that name tables of a service, or a format of TorchEasyRec,
// and files on this machine.
#pragma once

#include <string>

#include "config/proto/pipeline.pb.h"
#include "data/source/storage.h"

namespace emblem {

// "odps://project/tables/name" or "kafka://broker/topic".
bool is_remote(const std::string& path);

// Throws Error that names `option` when `path` is remote. `setting`: "train_input_path".
void require_local(const std::string& setting, const std::string& path, const std::string& option);

// The format in which the files of `path` are read: that of guess_format. Throws Error for files
// without a reader.
config::DatasetType dataset_type_for(const std::string& path, const Storage& storage = nullptr);

// dataset_type becomes that of the files of `path`, for CSV files with delimiter and with_header.
// `storage` null: one of its own with the settings of `data`, where `path` has addresses.
void follow_files(const std::string& path, config::DataConfig* data, Storage storage = nullptr);

// For data that a model did not train on: dataset_type becomes that of the files of `path` where
// they have another one for certain (known_format), or where they are text and `data` names no
// format of text; so do delimiter and with_header for CSV files that were something else before.
// Returns whether it changed. A topic, a table of a service and an empty path change nothing.
bool follow_input(const std::string& path, config::DataConfig* data, Storage storage = nullptr);

// A configuration whose dataset_type is that of eval_input_path, which may differ from that of the
// training data. Unchanged with data_config.holdout_ratio and without eval_input_path.
config::PipelineConfig for_evaluation(config::PipelineConfig config, Storage storage = nullptr);

// A dataset_type of TorchEasyRec (OdpsDataset, ParquetDataset, KafkaDataset) becomes that of the
// files of train_input_path, or of eval_input_path where that is remote or missing, for a CSV
// file with delimiter and with_header. Other types stay, and so does KafkaDataset where
// train_input_path is a topic. Throws Error for files without a reader.
void follow_local_files(config::PipelineConfig* config);

}  // namespace emblem
