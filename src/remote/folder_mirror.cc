#include "remote/folder_mirror.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "core/files/file.h"
#include "core/files/inner_path.h"
#include "core/system/log.h"
#include "core/text/text.h"
#include "data/source/folder_copies.h"
#include "emblem/error.h"
#include "remote/download.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMirrorPart = ".part";
constexpr const char* kMirrorPrefix = "view-";

// Replaces what is there in one step.
void link_folder(const std::string& to, const std::string& at) {
  make_folders(fs::path(at).parent_path().string());
  const std::string made = at + ".new";
  remove_path(made);
  std::error_code error;
  fs::create_directory_symlink(to, made, error);
  if (error)
    throw Error(ErrorCode::kUnavailable, cat("cannot make the link ", made, ": ", error.message()));
  rename_path(made, at);
}

// Where the link to a unit is. Other links on the way are refused: they lead into copies that all
// processes share.
std::string place_of_unit(const std::string& local, const std::string& unit) {
  const size_t slash = unit.rfind('/');
  if (slash == std::string::npos) return path_below(local, unit);
  return path_below(path_below(local, unit.substr(0, slash), Links::kRefuse),
                    unit.substr(slash + 1));
}

// Removes a file or link of the folder `local`, and the folders that have nothing else.
void remove_with_empty_folders(const std::string& local, const std::string& name) {
  std::error_code ignored;
  fs::path path = fs::path(local) / name;
  fs::remove(path, ignored);
  for (path = path.parent_path(); path != local; path = path.parent_path())
    if (!fs::remove(path, ignored)) return;
}

}  // namespace

FolderMirror::FolderMirror(RemoteStorage& storage, const std::string& uri, int depth)
    : folder_(storage, uri, depth) {
  const std::string& cache = storage.cache().folder();
  remove_unused_copies(cache, kMirrorPrefix);
  for (int number = 0; lock_ == nullptr; ++number) {
    local_ = copy_path(cache, cat(kMirrorPrefix, ::getpid(), "-", number));
    lock_ = FileLock::try_lock(lock_of_copy(local_));
  }
  remove_locked_copy(local_);  // left meanwhile by a killed process with the same number
  make_folders(local_);
  write_copy_address(local_, folder_.uri());
}

// Someone may empty the cache folder by hand, past the locks.
void FolderMirror::begin_again_if_removed() {
  std::error_code ignored;
  if (fs::exists(local_, ignored)) return;
  log_warn(cat(local_, ", the copy of ", shown_uri(folder_.uri()),
               ", was removed; it is made again (emblem cache clear keeps what is in use)"));
  make_folders(fs::path(local_).parent_path().string());
  lock_.reset();  // its file may be gone, too
  while ((lock_ = FileLock::try_lock(lock_of_copy(local_))) == nullptr)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // another process looks at it
  make_folders(local_);
  write_copy_address(local_, folder_.uri());
  for (auto& [name, unit] : units_) retired_.push_back(std::move(unit));
  units_.clear();
  files_.clear();
}

FolderMirror::~FolderMirror() {
  std::error_code ignored;
  fs::remove_all(local_, ignored);
}

std::vector<FetchProblem> FolderMirror::pull() {
  folder_.look();
  // A proxy's page in the place of a listing looks like an empty folder: what is gone is missing
  // twice.
  const std::set<std::string> missing = missing_names();
  if (!missing.empty()) folder_.look();
  retired_.clear();
  begin_again_if_removed();
  std::vector<FetchProblem> problems;
  const auto attempt = [&](const std::string& name, const auto& fetch) {
    try {
      fetch();
    } catch (const Error& error) {
      problems.push_back({name, error.what()});
    }
  };
  remove_what_is_gone(missing);  // first: what comes may need its place
  for (const auto& [unit, objects] : folder_.units()) attempt(unit, [&] { pull_unit(unit); });
  for (const auto& [name, object] : folder_.loose())
    attempt(name, [&] { pull_file(name, object); });
  return problems;
}

void FolderMirror::pull_unit(const std::string& unit) {
  const std::string fingerprint = fingerprint_of(folder_.storage(), folder_.units().at(unit));
  auto known = units_.find(unit);
  std::error_code ignored;
  if (known != units_.end() && !fs::exists(known->second.path, ignored)) {  // removed by hand
    units_.erase(known);
    known = units_.end();
  }
  if (known != units_.end() && known->second.fingerprint == fingerprint) return;
  UnitCopy copy = fetch_unit(folder_, unit, fingerprint);
  link_folder(copy.path, place_of_unit(local_, unit));
  if (known != units_.end()) retired_.push_back(std::move(known->second));
  units_.insert_or_assign(unit, std::move(copy));
}

void FolderMirror::pull_file(const std::string& name, const ObjectInfo& object) {
  const std::string fingerprint = fingerprint_of(folder_.storage(), {object});
  const auto known = files_.find(name);
  if (known != files_.end() && known->second == fingerprint) return;
  const std::string part = local_ + "/" + kMirrorPart;
  download_files(folder_.storage(), {{object, part}});
  const std::string path = path_below(local_, name, Links::kRefuse);
  make_folders(fs::path(path).parent_path().string());
  rename_path(part, path);
  files_[name] = fingerprint;  // fingerprint of what is there now
}

std::set<std::string> FolderMirror::missing_names() const {
  std::set<std::string> missing;
  for (const auto& [unit, copy] : units_)
    if (!folder_.has(unit)) missing.insert(unit);
  for (const auto& [name, fingerprint] : files_)
    if (!folder_.loose().contains(name)) missing.insert(name);
  return missing;
}

void FolderMirror::remove_what_is_gone(const std::set<std::string>& missing_before) {
  std::set<std::string> gone = missing_names();
  std::erase_if(gone, [&](const auto& name) { return !missing_before.contains(name); });
  for (auto unit = units_.begin(); unit != units_.end();) {
    if (!gone.contains(unit->first)) {
      ++unit;
      continue;
    }
    remove_with_empty_folders(local_, unit->first);
    retired_.push_back(std::move(unit->second));
    unit = units_.erase(unit);
  }
  for (auto file = files_.begin(); file != files_.end();) {
    if (!gone.contains(file->first)) {
      ++file;
      continue;
    }
    remove_with_empty_folders(local_, file->first);
    file = files_.erase(file);
  }
}

}  // namespace emblem
