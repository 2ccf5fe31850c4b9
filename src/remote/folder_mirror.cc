#include "remote/folder_mirror.h"

#include <unistd.h>

#include <filesystem>

#include "core/file.h"
#include "core/inner_path.h"
#include "core/text.h"
#include "data/source/folder_copies.h"
#include "emblem/error.h"
#include "remote/download.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPart = ".part";

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

}  // namespace

FolderMirror::FolderMirror(RemoteStorage& storage, const std::string& uri, int depth)
    : folder_(storage, uri, depth) {
  for (int number = 0; lock_ == nullptr; ++number) {
    local_ = copy_path(storage.cache().folder(), cat("view-", ::getpid(), "-", number));
    lock_ = FileLock::try_lock(lock_of_copy(local_));
  }
  remove_locked_copy(local_);  // of a process with the same number that was killed
  make_folders(local_);
  write_copy_address(local_, folder_.uri());
}

FolderMirror::~FolderMirror() {
  std::error_code ignored;
  fs::remove_all(local_, ignored);
}

std::vector<FetchProblem> FolderMirror::pull() {
  folder_.look();
  retired_.clear();
  std::vector<FetchProblem> problems;
  const auto attempt = [&](const std::string& name, const auto& fetch) {
    try {
      fetch();
    } catch (const Error& error) {
      problems.push_back({name, error.what()});
    }
  };
  for (const auto& [unit, objects] : folder_.units()) attempt(unit, [&] { pull_unit(unit); });
  for (const auto& [name, object] : folder_.loose())
    attempt(name, [&] { pull_file(name, object); });
  remove_what_is_gone();
  return problems;
}

void FolderMirror::pull_unit(const std::string& unit) {
  const std::string fingerprint =
      fingerprint_of(folder_.storage(), folder_.units().at(unit));
  const auto known = units_.find(unit);
  if (known != units_.end() && known->second.fingerprint == fingerprint) return;
  UnitCopy copy = fetch_unit(folder_, unit, fingerprint);
  link_folder(copy.path, path_below(local_, unit, Links::kFollow));
  if (known != units_.end()) retired_.push_back(std::move(known->second));
  units_.insert_or_assign(unit, std::move(copy));
}

void FolderMirror::pull_file(const std::string& name, const ObjectInfo& object) {
  const std::string fingerprint = fingerprint_of(folder_.storage(), {object});
  const auto known = files_.find(name);
  if (known != files_.end() && known->second == fingerprint) return;
  const std::string part = local_ + "/" + kPart;
  download_files(folder_.storage(), {{object, part}});
  const std::string path = path_below(local_, name, Links::kRefuse);
  make_folders(fs::path(path).parent_path().string());
  rename_path(part, path);
  files_[name] = fingerprint;  // of what is there now
}

void FolderMirror::remove_what_is_gone() {
  for (auto unit = units_.begin(); unit != units_.end();) {
    if (folder_.has(unit->first)) {
      ++unit;
      continue;
    }
    const fs::path link = local_ + "/" + unit->first;
    std::error_code ignored;
    fs::remove(link, ignored);
    fs::remove(link.parent_path(), ignored);  // of a model without versions
    retired_.push_back(std::move(unit->second));
    unit = units_.erase(unit);
  }
  for (auto file = files_.begin(); file != files_.end();) {
    if (folder_.loose().contains(file->first)) {
      ++file;
      continue;
    }
    const fs::path path = local_ + "/" + file->first;
    std::error_code ignored;
    fs::remove(path, ignored);
    fs::remove(path.parent_path(), ignored);
    file = files_.erase(file);
  }
}

}  // namespace emblem
