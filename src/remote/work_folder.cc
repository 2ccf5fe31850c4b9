#include "remote/work_folder.h"

#include <unistd.h>

#include <filesystem>

#include "core/files/file.h"
#include "core/text/text.h"
#include "data/source/folder_copies.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr const char* kWorkPrefix = "write-";

}  // namespace

WorkFolder::WorkFolder(RemoteStorage& storage, const std::string& uri) {
  const std::string& cache = storage.cache().folder();
  remove_unused_copies(cache, kWorkPrefix);
  for (int number = 0; lock_ == nullptr; ++number) {
    path_ = copy_path(cache, cat(kWorkPrefix, ::getpid(), "-", number));
    lock_ = FileLock::try_lock(lock_of_copy(path_));
  }
  remove_locked_copy(path_);  // left meanwhile by a killed process with the same number
  make_folders(path_);
  write_copy_address(path_, uri);
}

WorkFolder::~WorkFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace emblem
