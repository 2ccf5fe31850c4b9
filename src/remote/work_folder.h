// remote/work_folder.h - a folder of the cache for what is about to be uploaded.
#pragma once

#include <memory>
#include <string>

#include "data/source/file_lock.h"
#include "data/source/remote_storage.h"

namespace emblem {

// Counts for the size of the cache; no process removes it while this exists. Removed at the end;
// what a killed process left, by the next one that makes such a folder in the same cache.
class WorkFolder {
 public:
  // A folder for what will be at `uri`.
  WorkFolder(RemoteStorage& storage, const std::string& uri);
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::unique_ptr<FileLock> lock_;
};

}  // namespace emblem
