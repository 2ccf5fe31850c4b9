#include "core/files/atomic_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <string_view>

#include "core/files/file.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNameDigits = 16;

std::string random_digits() {
  std::random_device random;
  char digits[kNameDigits + 1];
  std::snprintf(digits, sizeof(digits), "%08x%08x", random(), random());
  return digits;
}

// What hidden names of a target begin with.
std::string hidden_prefix(const fs::path& target) {
  return cat(".", target.filename().string(), ".new-");
}

FileDescriptor open_folder(const std::string& path) {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
}

bool is_open_at(int folder, const std::string& path) {
  struct stat opened, named;
  return ::fstat(folder, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

// Removes hidden folders whose writers are gone: no one has locked them.
void remove_leftovers(const fs::path& target) {
  const std::string prefix = hidden_prefix(target);
  std::error_code error;
  for (fs::directory_iterator entry(target.parent_path(), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(prefix) || name.size() != prefix.size() + kNameDigits) continue;
    if (name.find_first_not_of("0123456789abcdef", prefix.size()) != name.npos) continue;
    const FileDescriptor folder = open_folder(entry->path().string());
    if (folder.get() < 0 || ::flock(folder.get(), LOCK_EX | LOCK_NB) != 0) continue;
    std::error_code ignored;
    fs::remove_all(entry->path(), ignored);
  }
}

}  // namespace

AtomicFolder::AtomicFolder(const std::string& target, const std::string& thing)
    : given_(target), thing_(thing) {
  EMBLEM_REQUIRE(!target.empty(), "the folder to save ", thing, " in has no name");
  fs::path clean = fs::absolute(target).lexically_normal();
  if (!clean.has_filename()) clean = clean.parent_path();  // "folder/"
  EMBLEM_REQUIRE(clean.has_filename(), "'", target, "' cannot be a new folder; save ", thing,
                 " as a folder in it");
  target_ = clean.string();
  require_free();
  make_folders(clean.parent_path().string());
  remove_leftovers(clean);
  while (!make_hidden()) {
  }
}

// False where another process has taken the new folder for a leftover before it was locked.
bool AtomicFolder::make_hidden() {
  const fs::path target(target_);
  path_ = (target.parent_path() / (hidden_prefix(target) + random_digits())).string();
  if (::mkdir(path_.c_str(), 0777) != 0) {
    if (errno == EEXIST) return false;
    throw Error(ErrorCode::kUnavailable,
                cat("cannot make the folder ", path_, ": ", std::strerror(errno)));
  }
  lock_ = open_folder(path_);
  if (lock_.get() < 0 && errno == ENOENT) return false;
  if (lock_.get() < 0)
    throw Error(ErrorCode::kUnavailable,
                cat("cannot open the folder ", path_, ": ", std::strerror(errno)));
  // A file system without locks removes no leftovers.
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
  return is_open_at(lock_.get(), path_);
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!is_committed_) fs::remove_all(path_, ignored);
}

void AtomicFolder::require_free() const {
  std::error_code ignored;
  EMBLEM_REQUIRE(!fs::exists(fs::symlink_status(target_, ignored)), given_,
                 " exists already; save ", thing_, " as another folder");
}

void AtomicFolder::commit() {
  sync_directory(path_);
  require_free();
  rename_path(path_, target_);
  is_committed_ = true;
  sync_directory(fs::path(target_).parent_path().string());
}

}  // namespace emblem
