// remote/download.h - objects of a store as files.
#pragma once

#include <string>
#include <vector>

#include "data/source/remote_storage.h"

namespace emblem {

struct FileDownload {
  ObjectInfo object;
  std::string path;
};

// Downloads objects to files, by parallel ranges; makes their folders. Throws kUnavailable when one
// changed or was removed since `object` was seen.
void download_files(RemoteStorage& storage, const std::vector<FileDownload>& files);

}  // namespace emblem
