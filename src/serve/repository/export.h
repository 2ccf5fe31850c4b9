// serve/repository/export.h - a checkpoint becomes a version of a model in a repository.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/input_ranges.h"
#include "data/source/storage.h"
#include "remote/store_lock.h"

namespace emblem {

class Index;
class StoredColumns;

struct ExportedModel {
  std::string folder;  // REPOSITORY/NAME/VERSION
  int64_t version = 0;
  int64_t step = 0;  // step of the checkpoint
  uint64_t bytes = 0;
  bool wrote_config = false;  // config.pbtxt was not there
};

// Writes what inference needs of a checkpoint (its configuration, dense parameters, keys and
// weights of the tables; no optimizer state) as a version of the model folder `out`, by default the
// one after the highest there, and a config.pbtxt unless there is one. The version appears whole or
// not at all; files are linked rather than copied where the file system can. `checkpoint` may be a
// model dir: its latest one is taken. With `int8`, the ranges of inputs of the layers, CPUs compute
// the model's layers in int8. An address `out` is written to through `storage`, under a lock that
// others see (remote/store_lock.h); `checkpoint` is on this machine.
//
// With `index`, of vectors of the item tower, the version has the tower of users alone, and the
// index in a folder of its own (serve/engine/retrieval/index_servable.h), beside it the columns
// that are stored with its items (null: none).
ExportedModel export_model(const std::string& checkpoint, const std::string& out,
                           int64_t version = 0, const LayerRanges* int8 = nullptr,
                           const Storage& storage = nullptr,
                           const StoreLockOptions& lock = store_lock_options(),
                           const Index* index = nullptr, const StoredColumns* columns = nullptr);

// Throws Error where export_model would refuse to write version `version` (0: the next one) of the
// model folder `out`, an address or a folder, because of its name or of what is there.
void check_model_folder(const std::string& out, int64_t version);

}  // namespace emblem
