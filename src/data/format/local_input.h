// data/format/local_input.h - pipelines that name tables of a service, or a format of TorchEasyRec,
// and files on this machine.
#pragma once

#include <string>

#include "config/pipeline.pb.h"

namespace emblem {

// "odps://project/tables/name" or "kafka://broker/topic".
bool is_remote(const std::string& path);

// Throws Error that names `option` when `path` is remote. `setting`: "train_input_path".
void require_local(const std::string& setting, const std::string& path, const std::string& option);

// The format in which the files of `path` are read: that of guess_format. Throws Error for files
// without a reader.
config::DatasetType dataset_type_for(const std::string& path);

// dataset_type becomes that of the files of `path`; of CSV files, delimiter and with_header as
// well.
void follow_files(const std::string& path, config::DataConfig* data);

// A dataset_type of TorchEasyRec (OdpsDataset, ParquetDataset, KafkaDataset) becomes that of the
// files of train_input_path, or of eval_input_path where that is remote or missing; of a CSV file,
// delimiter and with_header as well. Other types stay, and
// so does KafkaDataset where train_input_path is a topic. Throws Error for files without a reader.
void follow_local_files(config::PipelineConfig* config);

}  // namespace emblem
