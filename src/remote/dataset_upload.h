// remote/dataset_upload.h - data sets that are written to remote stores.
#pragma once

#include <functional>
#include <string>

#include "data/format/output_folder.h"

namespace emblem {

// Calls `write` with a folder to write to: `to` itself, or, where that is an address, a folder of
// the cache whose files are brought there, index and metadata.json last. Throws Error when there
// are objects at the address already, unless they may be replaced.
void write_data_set(const std::string& to, Overwrite overwrite,
                    const std::function<void(const std::string& folder)>& write);

// Throws Error when the address `to` would replace one of `inputs`, or appear among them.
void refuse_inputs_in(const std::string& inputs, const std::string& to);

}  // namespace emblem
