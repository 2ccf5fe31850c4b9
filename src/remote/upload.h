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

// Uploads FOLDER/NAME to URI/NAME for all names, several at a time. After an error no further file
// is begun; throws the first one when those under way have ended.
void upload_files(RemoteStorage& storage, const std::string& folder,
                  const std::vector<std::string>& names, const std::string& uri,
                  const UploadCalls& calls = {});

// Throws kUnavailable unless the store lists URI/NAME for all names, with the sizes of FOLDER/NAME:
// stores, and what is between, have answered that they took what they did not.
void require_uploaded(RemoteStorage& storage, const std::string& folder,
                      const std::vector<std::string>& names, const std::string& uri);

}  // namespace emblem
