#include "remote/working_copy.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/files/file.h"
#include "core/files/inner_path.h"
#include "core/system/log.h"
#include "core/text/text.h"
#include "data/source/folder_copies.h"
#include "emblem/error.h"
#include "remote/download.h"
#include "remote/upload.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

constexpr const char* kJournal = ".uploaded.json";
constexpr const char* kSnapshot = ".upload";
constexpr const char* kFetched = ".fetch";
constexpr const char* kKept = ".kept";

// Others look whether a copy is in use by taking its lock for a moment.
std::unique_ptr<FileLock> lock_copy(const std::string& local, const std::string& uri) {
  const std::string path = lock_of_copy(local);
  for (int attempt = 0; attempt < 100; ++attempt) {
    if (auto lock = FileLock::try_lock(path)) {
      lock->sign();
      return lock;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  throw Error(ErrorCode::kUnavailable,
              cat(shown_uri(uri), " is in use by another training (", lock_holder(path),
                  "); wait until it has ended, or give another --model-dir"));
}

std::string local_folder(RemoteStorage& storage, const std::string& uri) {
  return copy_path(storage.cache().folder(), hash_of(storage.identity_of(uri)) + "-train");
}

}  // namespace

WorkingCopy::WorkingCopy(RemoteStorage& storage, const std::string& uri, int depth,
                         const StoreLockOptions& lock)
    : local_(local_folder(storage, RemoteFolder(storage, uri, depth).uri())),
      lock_((make_folders(fs::path(local_).parent_path().string()), lock_copy(local_, uri))),
      store_lock_(std::make_unique<StoreLock>(storage, uri, lock)),
      remote_(storage, uri, depth),
      journal_(local_ + "/" + kJournal) {
  make_folders(local_);
  mark_copy_pending(local_);
  write_copy_address(local_, remote_.uri());
  clean_up();
  look();
}

void WorkingCopy::look() {
  remote_.look();
  // A listing without what was just written is not true; what it lacks must not be removed here.
  if (!remote_.has_object(store_lock_->object_name()))
    throw Error(ErrorCode::kUnavailable,
                cat("the listing of ", remote_.uri(), " does not have what was written to it"));
}

WorkingCopy::~WorkingCopy() {
  try {
    clean_up();
    if (!has_pending() && !fs::exists(local_ + "/" + kKept)) mark_copy_uploaded(local_);
  } catch (const std::exception& error) {
    log_debug(cat(local_, ": ", error.what()));
  }
}

void WorkingCopy::clean_up() {
  remove_path(local_ + "/" + kSnapshot);
  remove_path(local_ + "/" + kFetched);
}

// ---- what is here ----

std::set<std::string> WorkingCopy::local_units() const {
  std::set<std::string> units;
  for (const std::string& name : visible_files(local_))
    if (name.ends_with(cat("/", kUnitManifest)))
      units.insert(fs::path(name).parent_path().string());
  return units;
}

// "" where it is gone.
std::string WorkingCopy::version_here(const std::string& unit) const {
  const std::string path = cat(local_, "/", unit, "/", kUnitManifest);
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return "";
  try {
    return hash_of(read_text_file(path));
  } catch (const Error&) {
    if (!fs::exists(path, ignored)) return "";
    throw;
  }
}

std::string WorkingCopy::version_there(const std::string& unit) const {
  return hash_of(remote_.storage().read_text(remote_.address(unit + "/" + kUnitManifest)));
}

std::vector<std::string> WorkingCopy::pending_units() const {
  std::vector<std::string> pending;
  for (const std::string& unit : local_units()) {
    const std::string version = version_here(unit);
    if (!version.empty() && !journal_.is_confirmed(unit, version)) pending.push_back(unit);
  }
  return pending;
}

std::vector<std::string> WorkingCopy::pending_files() const {
  std::vector<std::string> pending;
  const std::set<std::string> units = local_units();
  for (const std::string& name : visible_files(local_))
    if (unit_of(name, units).empty() && remote_.is_loose(name) &&
        !journal_.has(name, stamp_of(local_ + "/" + name)))
      pending.push_back(name);
  return pending;
}

bool WorkingCopy::has_pending() const {
  return !pending_units().empty() || !pending_files().empty();
}

std::string WorkingCopy::set_aside(const std::string& name) {
  const auto now = std::chrono::duration_cast<std::chrono::seconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  for (int number = 0;; ++number) {
    const std::string kept = cat(local_, "/", kKept, "/", now, "-", number, "/", name);
    if (fs::exists(kept)) continue;
    make_folders(fs::path(kept).parent_path().string());
    rename_path(local_ + "/" + name, kept);
    journal_.forget(name);
    journal_.drop(name);
    journal_.save();
    return kept;
  }
}

// ---- the store and what is here ----

std::vector<std::string> WorkingCopy::compare() {
  std::vector<std::string> aside;
  for (const std::string& unit : pending_units()) {
    const std::map<std::string, int64_t> sizes = remote_.look_at(unit);
    if (!remote_.has(unit)) continue;
    const std::string there = version_there(unit), here = version_here(unit);
    if (there == here) {
      const UnitSnapshot snapshot(local_ + "/" + unit, local_ + "/" + kSnapshot);
      if (!is_there(snapshot, sizes)) continue;
      for (const SnapshotFile& file : snapshot.files())
        journal_.add(unit + "/" + file.name, file.stamp);
      journal_.confirm(unit, here);
    } else if (!journal_.is_own(unit, there)) {
      log_warn(cat(remote_.address(unit),
                   " is not the one of this machine, which was not uploaded; "
                   "that is kept in ",
                   set_aside(unit)));
      aside.push_back(unit);
    }
  }
  journal_.save();
  return aside;
}

// Listings may be older than the objects.
void WorkingCopy::require_gone(const std::string& unit) const {
  if (remote_.storage().find(remote_.address(unit + "/" + kUnitManifest)))
    throw Error(ErrorCode::kUnavailable,
                cat("the listing of ", remote_.address(unit), " does not have its manifest"));
}

void WorkingCopy::remove_what_is_gone(
    const std::function<bool(const std::string& name)>& has_successor) {
  for (const std::string& unit : local_units()) {
    if (remote_.has(unit) || !journal_.is_confirmed(unit, version_here(unit))) continue;
    require_gone(unit);
    if (!has_successor(unit)) {
      log_warn(cat(remote_.address(unit),
                   " was uploaded and was deleted from the store; its copy on this machine is "
                   "kept in ",
                   set_aside(unit), ": copy that back to continue from it"));
      continue;
    }
    log_info(cat(remote_.address(unit), " was removed; its copy here is removed, too"));
    remove_path(local_ + "/" + unit);
    journal_.forget(unit);
  }
  const std::set<std::string> units = local_units();
  std::vector<std::string> nowhere;  // units that are sent again if they come again
  for (const auto& [unit, versions] : journal_.units())
    if (!units.contains(unit) && !remote_.has(unit)) nowhere.push_back(unit);
  for (const std::string& unit : nowhere) journal_.forget(unit);
  for (const std::string& name : visible_files(local_)) {
    const bool is_gone = unit_of(name, units).empty() && !remote_.loose().contains(name) &&
                         journal_.has(name, stamp_of(local_ + "/" + name));
    if (!is_gone) continue;
    if (!has_successor(name)) {
      log_info(cat(remote_.address(name), " was deleted from the store; its copy is kept in ",
                   set_aside(name)));
      continue;
    }
    remove_path(local_ + "/" + name);
    journal_.drop(name);
  }
  journal_.save();
}

bool WorkingCopy::has_sizes_of_store(const std::string& unit) const {
  const std::vector<ObjectInfo>& objects = remote_.units().at(unit);
  return std::all_of(objects.begin(), objects.end(), [&](const ObjectInfo& object) {
    return stamp_of(local_ + "/" + remote_.name_of(object)).bytes == object.bytes;
  });
}

void WorkingCopy::fetch(const std::string& unit, const FetchCheck& check) {
  const std::string here = version_here(unit);
  if (!here.empty() && here == version_there(unit) && has_sizes_of_store(unit)) return;
  if (!here.empty() && !journal_.is_confirmed(unit, here)) set_aside(unit);
  const std::string made = local_ + "/" + kFetched;
  remove_path(made);
  std::vector<FileDownload> files;
  int64_t bytes = 0;
  for (const ObjectInfo& object : remote_.units().at(unit)) {
    const std::string name = remote_.name_of(object).substr(unit.size() + 1);
    files.push_back({object, path_below(made, name)});
    bytes += object.bytes;
  }
  remote_.storage().cache().make_room(bytes);
  download_files(remote_.storage(), files);
  if (check) check(made);
  const std::string version = hash_of(read_text_file(made + "/" + kUnitManifest));
  const std::string to = path_below(local_, unit);
  make_folders(fs::path(to).parent_path().string());
  remove_path(to);
  rename_path(made, to);
  for (const std::string& name : visible_files(to))
    journal_.add(unit + "/" + name, stamp_of(to + "/" + name));
  journal_.confirm(unit, version);
  journal_.save();
}

void WorkingCopy::fetch_files() {
  const std::vector<std::string> pending = pending_files();
  std::vector<FileDownload> files;
  std::vector<std::string> names;
  const std::string made = local_ + "/" + kFetched;
  remove_path(made);
  for (const auto& [name, object] : remote_.loose()) {
    if (std::find(pending.begin(), pending.end(), name) != pending.end()) continue;
    files.push_back({object, path_below(made, name)});
    names.push_back(name);
  }
  download_files(remote_.storage(), files);
  for (const std::string& name : names) {
    const std::string to = path_below(local_, name);
    make_folders(fs::path(to).parent_path().string());
    rename_path(made + "/" + name, to);
    journal_.add(name, stamp_of(to));
  }
  journal_.save();
}

// ---- uploads ----

// All but the manifest.
bool WorkingCopy::is_there(const UnitSnapshot& snapshot,
                           const std::map<std::string, int64_t>& sizes) const {
  return snapshot.is_whole() &&
         std::all_of(snapshot.files().begin(), snapshot.files().end(), [&](const auto& file) {
           const auto found = sizes.find(file.name);
           return file.name == kUnitManifest ||
                  (found != sizes.end() && found->second == file.stamp.bytes);
         });
}

Error WorkingCopy::not_what_was_uploaded(const std::string& name) const {
  return {ErrorCode::kUnavailable, cat(remote_.address(name), " is not what was uploaded")};
}

void WorkingCopy::require_there(const std::string& unit, const UnitSnapshot& snapshot,
                                const std::map<std::string, int64_t>& sizes) const {
  if (!is_there(snapshot, sizes)) throw not_what_was_uploaded(unit);
}

// Units are compared as a whole; a file outside of them by its size and its end.
void WorkingCopy::require_sent(const std::string& name, const std::string& file) const {
  constexpr int64_t kComparedBytes = 65536;
  const auto there = remote_.storage().find(remote_.address(name));
  const auto bytes = static_cast<int64_t>(fs::file_size(file));
  if (!there || there->bytes != bytes) throw not_what_was_uploaded(name);
  const int64_t count = std::min(bytes, kComparedBytes);
  std::string end(static_cast<size_t>(count), '\0');
  std::ifstream(file, std::ios::binary).seekg(bytes - count).read(end.data(), count);
  if (count > 0 && remote_.storage().read_range(*there, bytes - count, count) != end)
    throw not_what_was_uploaded(name);
}

// Sends to the folder of `unit`; "": outside of units.
void WorkingCopy::send(const std::vector<SnapshotFile>& files, const std::string& from,
                       const std::string& unit) {
  std::vector<std::string> names;
  for (const SnapshotFile& file : files) names.push_back(file.name);
  try {
    const auto add = [&](size_t i) {
      if (unit.empty()) require_sent(names[i], from + "/" + names[i]);
      journal_.add(unit.empty() ? names[i] : unit + "/" + names[i], files[i].stamp);
    };
    upload_files(remote_.storage(), from, names, remote_.address(unit),
                 {.before = store_lock_->before_write(), .after = add});
  } catch (...) {
    journal_.save();  // the next attempt sends the rest
    throw;
  }
}

void WorkingCopy::upload_contents(const std::string& unit, const UnitSnapshot& snapshot,
                                  const std::map<std::string, int64_t>& sizes) {
  std::vector<SnapshotFile> missing;
  for (const SnapshotFile& file : snapshot.files()) {
    if (file.name == kUnitManifest) continue;
    const auto there = sizes.find(file.name);
    const bool is_sent = there != sizes.end() && there->second == file.stamp.bytes &&
                         journal_.has(unit + "/" + file.name, file.stamp);
    if (!is_sent) missing.push_back(file);
  }
  // Readers must not see files of two versions.
  if (!missing.empty() && sizes.contains(kUnitManifest))
    remote_.remove_manifest(unit, store_lock_->before_write());
  send(missing, snapshot.path(), unit);
}

void WorkingCopy::upload_manifest(const std::string& unit, const UnitSnapshot& snapshot) {
  const std::string version = hash_of(snapshot.manifest());
  journal_.will_send(unit, version);
  remote_.storage().write_text(remote_.address(unit + "/" + kUnitManifest), snapshot.manifest(),
                               store_lock_->before_write());
  const std::map<std::string, int64_t> sizes = remote_.look_at(unit);
  require_there(unit, snapshot, sizes);
  const auto found = sizes.find(kUnitManifest);
  if (found == sizes.end() || found->second != static_cast<int64_t>(snapshot.manifest().size()))
    throw not_what_was_uploaded(unit);
  journal_.confirm(unit, version);
  journal_.save();
}

void WorkingCopy::upload(const std::string& unit) {
  store_lock_->require();
  const UnitSnapshot snapshot(local_ + "/" + unit, local_ + "/" + kSnapshot);
  if (!snapshot.is_whole()) return;
  std::map<std::string, int64_t> sizes = remote_.look_at(unit);
  if (remote_.has(unit)) {
    const std::string there = version_there(unit);
    if (there == hash_of(snapshot.manifest()) && is_there(snapshot, sizes)) {
      journal_.confirm(unit, there);
      return journal_.save();
    }
    if (!journal_.is_own(unit, there))
      throw Error(ErrorCode::kInvalidArgument,
                  cat(remote_.address(unit), " exists already and is not of this run"));
  } else {
    require_gone(unit);
  }
  upload_contents(unit, snapshot, sizes);
  // What is left there of another version.
  sizes = remote_.look_at(unit);
  require_there(unit, snapshot, sizes);
  for (const auto& [name, bytes] : sizes) {
    const bool is_ours =
        std::any_of(snapshot.files().begin(), snapshot.files().end(),
                    [&, &each = name](const SnapshotFile& file) { return file.name == each; });
    if (!is_ours)
      remote_.storage().remove(remote_.address(unit + "/" + name), store_lock_->before_write());
  }
  upload_manifest(unit, snapshot);
}

void WorkingCopy::upload_loose_files() {
  store_lock_->require();
  const std::string copies = local_ + "/" + kSnapshot;
  remove_path(copies);
  std::vector<SnapshotFile> files;
  for (const std::string& name : pending_files()) {
    const FileStamp stamp = stamp_of(local_ + "/" + name);
    // A copy, not a link: logs are truncated and extended in place.
    make_folders(fs::path(copies + "/" + name).parent_path().string());
    std::error_code error;
    fs::copy_file(local_ + "/" + name, copies + "/" + name, error);
    if (error == std::errc::no_such_file_or_directory) continue;
    if (error)
      throw Error(ErrorCode::kUnavailable,
                  cat("cannot copy ", local_, "/", name, ": ", error.message()));
    files.push_back({name, stamp});
  }
  send(files, copies, "");
  remove_path(copies);
  std::vector<std::string> gone;
  for (const auto& [name, stamp] : journal_.files())
    if (remote_.is_loose(name) && !fs::exists(local_ + "/" + name)) gone.push_back(name);
  for (const std::string& name : gone) {
    remote_.storage().remove(remote_.address(name), store_lock_->before_write());
    journal_.drop(name);
  }
  journal_.save();
}

void WorkingCopy::remove(const std::string& unit) {
  remote_.remove(unit, store_lock_->before_write());
  journal_.forget(unit);
  journal_.save();
}

}  // namespace emblem
