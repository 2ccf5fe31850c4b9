#include "data/source/objects/object_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "core/files/file.h"
#include "core/math/checksum.h"
#include "core/system/log.h"
#include "core/text/text.h"
#include "data/source/folder_copies.h"
#include "data/source/objects/copy_check.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kScanSeconds = 10;  // other processes fill the cache as well

int64_t steady_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// What is in a folder of the cache: names without their ending.
struct StoredFile {
  std::string name, path;
  int64_t bytes = 0;  // on disk
  int64_t used = 0;   // nanoseconds
};

std::vector<StoredFile> files_with(const std::string& folder, const std::string& ending) {
  std::vector<StoredFile> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    struct stat status {};
    if (!name.ends_with(ending) || ::stat(entry->path().c_str(), &status) != 0) continue;
    files.push_back({name.substr(0, name.size() - ending.size()), entry->path().string(),
                     static_cast<int64_t>(status.st_blocks) * 512, nanoseconds(status.st_mtim)});
  }
  return files;
}

// When an object was used last: the time of its entry, or of its data where it has none.
int64_t last_use(const std::string& entry, int64_t otherwise) {
  struct stat status {};
  return ::stat(entry.c_str(), &status) == 0 ? nanoseconds(status.st_mtim) : otherwise;
}

bool is_in_use(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return file.get() >= 0 && ::flock(file.get(), LOCK_EX | LOCK_NB) != 0;
}

std::string text_of(const std::string& path) {
  try {
    return read_text_file(path);
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

std::string cache_folder(const std::string& folder) {
  if (!folder.empty()) return folder;
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string chosen = variable("EMBLEM_CACHE"); !chosen.empty()) return chosen;
  if (const std::string users = variable("XDG_CACHE_HOME"); !users.empty())
    return users + "/emblem";
  if (const std::string home = variable("HOME"); !home.empty()) return home + "/.cache/emblem";
  return cat("/var/tmp/emblem-cache-", ::getuid());
}

ObjectCache::ObjectCache(std::string folder, int64_t most_bytes)
    : folder_(std::move(folder)), most_bytes_(most_bytes) {
  try {
    for (const char* name : {"objects", "partial", "locks", "models"})
      make_folders(folder_ + "/" + name);
  } catch (const Error& error) {
    throw Error(ErrorCode::kUnavailable, cat(error.what(),
                                             "; choose another cache folder with --cache-dir, "
                                             "EMBLEM_CACHE or data_config.cache_dir"));
  }
  if (most_bytes_ > 0) return;
  std::error_code error;
  const fs::space_info space = fs::space(folder_, error);
  const int64_t free = error ? 0 : static_cast<int64_t>(space.available);
  most_bytes_ = std::max<int64_t>(1, (free + used_bytes()) / 10 * 8);
}

std::string ObjectCache::path(const char* folder, const std::string& name,
                              const char* ending) const {
  return folder_ + "/" + folder + "/" + name + ending;
}

std::optional<CacheEntry> ObjectCache::read_entry(const std::string& name) const {
  return parse_cache_entry(text_of(path("objects", name, ".json")));
}

void ObjectCache::write_entry(const std::string& name, CacheEntry entry, int data) const {
  struct stat status {};
  if (::fstat(data, &status) == 0) entry.data_changed = nanoseconds(status.st_ctim);
  entry.boot = boot_id();
  // Not synced: after a crash of the machine the entry is of another boot, and checksums are
  // compared.
  const std::string text = cache_entry_text(entry);
  const std::string made = path("partial", cat(name, ".", ::getpid()), ".json");
  {
    const FileDescriptor file(::open(made.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (file.get() < 0)
      throw Error(ErrorCode::kUnavailable, cat("cannot write ", made, ": ", std::strerror(errno)));
    write_at(file.get(), text.data(), static_cast<int64_t>(text.size()), 0, made);
  }
  rename_path(made, path("objects", name, ".json"));
}

void ObjectCache::remove_object(const std::string& name) const {
  ::unlink(path("objects", name, ".json").c_str());
  ::unlink(path("objects", name, ".data").c_str());
}

bool ObjectCache::is_intact(int data, const CacheEntry& entry) const {
  const auto content =
      std::make_unique_for_overwrite<char[]>(static_cast<size_t>(entry.part_bytes));
  for (size_t part = 0; part < entry.checksums.size(); ++part) {
    const int64_t begin = static_cast<int64_t>(part) * entry.part_bytes;
    const int64_t bytes = std::min(entry.part_bytes, entry.object.bytes - begin);
    const ssize_t got = ::pread(data, content.get(), static_cast<size_t>(bytes), begin);
    if (got != bytes ||
        checksum_of(content.get(), static_cast<size_t>(bytes)) != entry.checksums[part])
      return false;
  }
  return true;
}

std::optional<CachedObject> ObjectCache::find(const ObjectInfo& info) {
  const std::string name = cache_name(info);
  const auto entry = read_entry(name);
  if (!entry) return std::nullopt;
  FileDescriptor data(::open(path("objects", name, ".data").c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (data.get() < 0 || ::flock(data.get(), LOCK_SH | LOCK_NB) != 0 ||
      ::fstat(data.get(), &status) != 0)
    return std::nullopt;  // being evicted
  const bool fits = entry->object.uri == info.uri && entry->object.store == info.store &&
                    entry->object.bytes == info.bytes && status.st_size == info.bytes;
  const bool known = entry->boot == boot_id() && entry->data_changed == nanoseconds(status.st_ctim);
  if (!fits || (!known && !is_intact(data.get(), *entry))) {
    log_warn(cat("the cache folder ", folder_, " held a damaged copy of ", info.uri,
                 "; it is fetched again"));
    remove_object(name);
    return std::nullopt;
  }
  if (!known) write_entry(name, *entry, data.get());
  ::utimensat(AT_FDCWD, path("objects", name, ".json").c_str(), nullptr, 0);
  return CachedObject{data.release(), *entry};
}

void ObjectCache::confirm(const ObjectInfo& info, CacheEntry entry) {
  entry.fetched = std::chrono::duration_cast<std::chrono::seconds>(
                      std::chrono::system_clock::now().time_since_epoch())
                      .count();
  const std::string name = cache_name(info);
  const FileDescriptor data(::open(path("objects", name, ".data").c_str(), O_RDONLY | O_CLOEXEC));
  if (data.get() >= 0) write_entry(name, std::move(entry), data.get());
}

void ObjectCache::forget(const ObjectInfo& info) { remove_object(cache_name(info)); }

std::unique_ptr<FileLock> ObjectCache::try_lock(const ObjectInfo& info) const {
  return FileLock::try_lock(path("locks", cache_name(info), ""));
}

int64_t ObjectCache::last_progress(const ObjectInfo& info) const {
  struct stat status {};
  if (::stat(path("partial", cache_name(info), ".parts").c_str(), &status) != 0) return 0;
  return nanoseconds(status.st_mtim);
}

int64_t ObjectCache::used_bytes() const {
  int64_t used = 0;
  for (const char* folder : {"/objects", "/partial"})
    for (const StoredFile& file : files_with(folder_ + folder, ".data")) used += file.bytes;
  for (const FolderCopy& copy : list_copies(folder_)) used += copy.bytes;
  return used;
}

// Whether `file`, of the object `name` or a copy of a folder, is gone now.
bool ObjectCache::evict(const std::string& name, const std::string& file) const {
  if (name.empty()) return remove_copy(file);
  if (is_in_use(file)) return false;
  if (!file.starts_with(folder_ + "/partial/")) {
    remove_object(name);
    return true;
  }
  const auto held = FileLock::try_lock(path("locks", name, ""));
  if (held == nullptr) return false;
  ::unlink(path("partial", name, ".parts").c_str());
  ::unlink(file.c_str());
  return true;
}

bool ObjectCache::make_room(int64_t bytes) {
  if (bytes > most_bytes_) return false;
  const std::lock_guard lock(mutex_);
  const int64_t now = steady_seconds();
  if (scanned_ == 0 || now - scanned_ >= kScanSeconds || used_ + bytes > most_bytes_) {
    used_ = used_bytes();
    scanned_ = now;
  }
  if (used_ + bytes > most_bytes_) {
    std::vector<StoredFile> files = files_with(folder_ + "/objects", ".data");
    for (StoredFile& file : files)
      file.used = last_use(path("objects", file.name, ".json"), file.used);
    for (StoredFile& file : files_with(folder_ + "/partial", ".data"))
      files.push_back(std::move(file));
    for (const FolderCopy& copy : list_copies(folder_))
      if (!copy.is_used && !copy.is_pending)
        files.push_back({"", copy.path, copy.bytes, copy.last_used});
    std::sort(files.begin(), files.end(),
              [](const auto& a, const auto& b) { return a.used < b.used; });
    for (const StoredFile& file : files) {
      if (used_ + bytes <= most_bytes_) break;
      if (!evict(file.name, file.path)) continue;
      used_ -= file.bytes;
      ++evictions_;
    }
  }
  if (used_ + bytes > most_bytes_) return false;
  used_ += bytes;
  return true;
}

std::unique_ptr<PartialObject> ObjectCache::begin(const ObjectInfo& info, int64_t part_bytes) {
  const std::string name = cache_name(info);
  return std::make_unique<PartialObject>(
      PartialPaths{path("partial", name, ".data"), path("partial", name, ".parts")}, info,
      part_bytes);
}

void ObjectCache::commit(PartialObject& partial, const std::string& etag) {
  const CacheEntry entry = partial.entry(etag);
  const std::string name = fs::path(partial.paths().data).stem().string();
  rename_path(partial.paths().data, path("objects", name, ".data"));
  ::flock(partial.descriptor(), LOCK_SH | LOCK_NB);
  write_entry(name, entry, partial.descriptor());
  ::unlink(partial.paths().parts.c_str());
}

void ObjectCache::hold(std::unique_ptr<FileLock> lock) {
  const std::lock_guard guard(mutex_);
  held_.push_back(std::move(lock));
}

int64_t ObjectCache::evictions() const {
  const std::lock_guard lock(mutex_);
  return evictions_;
}

std::vector<CacheContent> ObjectCache::list() const {
  std::vector<CacheContent> contents;
  constexpr int64_t kSecond = 1000000000;
  for (const StoredFile& file : files_with(folder_ + "/objects", ".data")) {
    const auto entry = read_entry(file.name);
    contents.push_back({entry ? entry->object.uri : "", file.bytes,
                        last_use(path("objects", file.name, ".json"), file.used) / kSecond,
                        file.path});
  }
  for (const StoredFile& file : files_with(folder_ + "/partial", ".data"))
    contents.push_back({"", file.bytes, file.used / kSecond, file.path});
  for (const FolderCopy& copy : list_copies(folder_))
    contents.push_back({copy.uri, copy.bytes, copy.last_used / kSecond, copy.path,
                        /*is_copy=*/true, copy.is_pending, copy.is_used});
  std::sort(contents.begin(), contents.end(),
            [](const auto& a, const auto& b) { return a.uri < b.uri; });
  return contents;
}

ClearedCache ObjectCache::clear() {
  ClearedCache cleared;
  for (const StoredFile& file : files_with(folder_ + "/objects", ".data")) {
    remove_object(file.name);
    cleared.bytes += file.bytes;
  }
  for (const StoredFile& file : files_with(folder_ + "/objects", ".json"))
    ::unlink(file.path.c_str());
  for (const StoredFile& file : files_with(folder_ + "/partial", "")) {
    const std::string name = fs::path(file.path).stem().string();
    const auto held = FileLock::try_lock(path("locks", name, ""));
    if (held == nullptr) continue;  // a download under way
    ::unlink(file.path.c_str());
    if (file.path.ends_with(".data")) cleared.bytes += file.bytes;
  }
  for (CacheContent& content : list()) {
    if (!content.is_copy) continue;
    if (remove_copy(content.path))
      cleared.bytes += content.bytes;
    else
      cleared.kept.push_back(std::move(content));
  }
  return cleared;
}

std::vector<CacheContent> ObjectCache::verify() {
  std::vector<CacheContent> damaged;
  for (const StoredFile& file : files_with(folder_ + "/objects", ".data")) {
    const auto entry = read_entry(file.name);
    const FileDescriptor data(::open(file.path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status {};
    if (entry && data.get() >= 0 && ::fstat(data.get(), &status) == 0 &&
        status.st_size == entry->object.bytes && is_intact(data.get(), *entry))
      continue;
    remove_object(file.name);
    damaged.push_back(
        {entry ? entry->object.uri : "", file.bytes, file.used / 1000000000, file.path});
  }
  for (CacheContent& content : list()) {
    if (!content.is_copy || !has_copy_checksums(content.path) ||
        is_copy_intact(content.path, CompareCopy::kAll))
      continue;
    remove_copy(content.path);  // one that a process uses stays; others fetch it again
    damaged.push_back(std::move(content));
  }
  return damaged;
}

}  // namespace emblem
