// remote/upload.h - files as objects of a store.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/source/remote_storage.h"

namespace emblem {

// Uploads FOLDER/NAME to URI/NAME for all names, several at a time. Calls `done`, one call at a
// time, for each that is in the store. Throws the first error after the others have ended.
void upload_files(RemoteStorage& storage, const std::string& folder,
                  const std::vector<std::string>& names, const std::string& uri,
                  const std::function<void(size_t index)>& done = {});

}  // namespace emblem
