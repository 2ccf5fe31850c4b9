// remote/dataset_upload.h - data sets that are written to remote stores.
#pragma once

#include <functional>
#include <string>

#include "data/format/output_folder.h"
#include "data/source/remote_storage.h"
#include "remote/store_lock.h"

namespace emblem {

// Calls `write` with a folder of the cache to write to, and brings its files to the address `to`.
// Readers refuse the data set there until all of it is there (data/source/data_set_manifest.h).
// Throws Error when there are objects at the address already, unless they may be replaced and are
// those of a data set; when the address is a whole bucket; and when another process writes there
// (remote/store_lock.h).
void write_to_store(RemoteStorage& storage, const std::string& to, Overwrite overwrite,
                    const std::function<void(const std::string& folder)>& write,
                    const StoreLockOptions& lock = store_lock_options());

// Calls `write` with `to` itself where that is a folder, otherwise as write_to_store.
void write_data_set(const std::string& to, Overwrite overwrite, const Storage& storage,
                    const std::function<void(const std::string& folder)>& write);

// Throws Error when the address `to` would replace one of `inputs`, or appear among them.
void refuse_inputs_in(const std::string& inputs, const std::string& to, const Storage& storage);

}  // namespace emblem
