#include "remote/unit_snapshot.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/files/file.h"
#include "emblem/error.h"
#include "remote/remote_folder.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

// 0: there is none.
ino_t inode_of(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

// False when `from` does not exist any more.
bool link_or_copy(const std::string& from, const std::string& to) {
  if (::link(from.c_str(), to.c_str()) == 0) return true;
  if (errno == ENOENT) return false;
  std::error_code error;
  fs::copy_file(from, to, error);
  if (!error) return true;
  if (error == std::errc::no_such_file_or_directory) return false;
  throw Error(ErrorCode::kUnavailable,
              cat("cannot copy ", from, " to ", to, ": ", error.message()));
}

}  // namespace

std::vector<std::string> visible_files(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error, ignored;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename().string().starts_with('.')) {  // unfinished, or not for others
      if (entry->is_directory(ignored)) entry.disable_recursion_pending();
      continue;
    }
    if (entry->is_regular_file(ignored))
      names.push_back(entry->path().string().substr(folder.size() + 1));
  }
  std::sort(names.begin(), names.end());
  return names;
}

UnitSnapshot::UnitSnapshot(const std::string& unit_folder, std::string at) : path_(std::move(at)) {
  remove_path(path_);
  const ino_t before = inode_of(unit_folder);
  is_whole_ = before != 0 && link_all(unit_folder) && inode_of(unit_folder) == before;
  if (is_whole_) manifest_ = read_text_file(path_ + "/" + kUnitManifest);
}

bool UnitSnapshot::link_all(const std::string& from) {
  bool has_manifest = false;
  for (const std::string& name : visible_files(from)) {
    const std::string to = path_ + "/" + name;
    make_folders(fs::path(to).parent_path().string());
    if (!link_or_copy(from + "/" + name, to)) return false;
    // The stamp of the original: a copy has another time.
    files_.push_back({name, stamp_of(from + "/" + name)});
    has_manifest = has_manifest || name == kUnitManifest;
  }
  return has_manifest;
}

UnitSnapshot::~UnitSnapshot() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace emblem
