#include "data/source/folder_copies.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>

#include "core/files/file.h"
#include "core/system/log.h"
#include "core/text/text.h"
#include "data/source/file_lock.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "models";
constexpr const char* kAddress = ".address";
constexpr const char* kPending = ".pending";
constexpr const char* kRemoved = ".removed-";  // about to be deleted

int64_t bytes_on_disk(const std::string& folder) {
  int64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    struct stat status {};
    // A file of several names is counted once here, and by its share among copies.
    if (::lstat(entry->path().c_str(), &status) == 0 && S_ISREG(status.st_mode))
      bytes += static_cast<int64_t>(status.st_blocks) * 512 / static_cast<int64_t>(status.st_nlink);
  }
  return bytes;
}

int64_t last_use(const std::string& path) {
  struct stat status {};
  for (const std::string& name : {path + "/" + kAddress, path})
    if (::stat(name.c_str(), &status) == 0) return nanoseconds(status.st_mtim);
  return 0;
}

std::string text_or_nothing(const std::string& path) {
  try {
    return std::string(trim(read_text_file(path)));
  } catch (const Error&) {
    return "";
  }
}

// Working copies of earlier versions do not say what they are, nor what was uploaded.
bool is_pending(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path + "/" + kPending, ignored) ||
         (path.ends_with("-train") && !fs::exists(path + "/" + kAddress, ignored));
}

// Only asks: whoever removes takes the lock.
bool is_used(const std::string& path) {
  const std::string lock = lock_of_copy(path);
  if (::access(lock.c_str(), F_OK) != 0) return false;
  return FileLock::try_lock(lock) == nullptr;
}

}  // namespace

std::string copy_path(const std::string& cache, const std::string& name) {
  return cat(cache, "/", kFolder, "/", name);
}

void write_copy_address(const std::string& path, const std::string& uri) {
  write_text_file_atomically(path + "/" + kAddress, uri + "\n");
}

void touch_copy(const std::string& path) {
  ::utimensat(AT_FDCWD, (path + "/" + kAddress).c_str(), nullptr, 0);
}

void mark_copy_pending(const std::string& path) {
  write_text_file_atomically(path + "/" + kPending, "");
  sync_directory(path);
}

void mark_copy_uploaded(const std::string& path) { remove_path(path + "/" + kPending); }

std::vector<FolderCopy> list_copies(const std::string& cache) {
  std::vector<FolderCopy> copies;
  std::error_code error, ignored;
  for (fs::directory_iterator entry(copy_path(cache, ""), error), end; !error && entry != end;
       entry.increment(error)) {
    if (!entry->is_directory(ignored)) continue;
    const std::string name = entry->path().filename().string();
    const std::string path = copy_path(cache, name);
    if (name.starts_with(kRemoved)) {
      fs::remove_all(path, ignored);
      continue;
    }
    copies.push_back({path, text_or_nothing(path + "/" + kAddress), bytes_on_disk(path),
                      last_use(path), is_pending(path), is_used(path)});
  }
  std::sort(copies.begin(), copies.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  return copies;
}

bool remove_copy(const std::string& path) {
  const auto lock = FileLock::try_lock(lock_of_copy(path));
  if (lock == nullptr || is_pending(path)) return false;
  remove_locked_copy(path);
  return true;
}

void remove_unused_copies(const std::string& cache, const std::string& prefix) {
  std::vector<std::string> names;
  std::error_code error, ignored;
  for (fs::directory_iterator entry(copy_path(cache, ""), error), end; !error && entry != end;
       entry.increment(error))
    if (const std::string name = entry->path().filename().string();
        name.starts_with(prefix) && entry->is_directory(ignored))
      names.push_back(name);
  for (const std::string& name : names) try {
      remove_copy(copy_path(cache, name));
    } catch (const Error& error) {  // of another user
      log_debug(cat("cannot remove ", copy_path(cache, name), ": ", error.what()));
    }
}

void remove_locked_copy(const std::string& path) {
  static std::atomic<int> count{0};
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return;
  // Half of a copy is never seen, also when this process ends here.
  const std::string removed = cat(fs::path(path).parent_path().string(), "/", kRemoved, ::getpid(),
                                  "-", count.fetch_add(1));
  remove_path(removed);
  rename_path(path, removed);
  fs::remove_all(removed, ignored);
}

}  // namespace emblem
