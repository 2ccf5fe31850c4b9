// remote/upload.h - files as objects of a store.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/source/remote_storage.h"

namespace emblem {

// What is told of an upload, by several threads.
struct UploadCalls {
  BeforeWrite before;                       // each request; an error of it ends the upload
  std::function<void(size_t index)> after;  // each file that is in the store; one call at a time
};

// Uploads FOLDER/NAME to URI/NAME for all names, several at a time. Throws the first error after
// the others have ended.
void upload_files(RemoteStorage& storage, const std::string& folder,
                  const std::vector<std::string>& names, const std::string& uri,
                  const UploadCalls& calls = {});

}  // namespace emblem
