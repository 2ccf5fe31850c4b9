// remote/download.h - objects of a store as files.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/source/remote_storage.h"

namespace emblem {

// Throws Error when a unit that has arrived, in this folder, is not what its manifest says. It is
// not kept then.
using FetchCheck = std::function<void(const std::string& folder)>;

struct FileDownload {
  ObjectInfo object;
  std::string path;
};

// Downloads objects to files, by parallel ranges; makes their folders. Throws kUnavailable when one
// changed or was removed since `object` was seen, or arrived damaged kDamagedAttempts times.
void download_files(RemoteStorage& storage, const std::vector<FileDownload>& files);

}  // namespace emblem
