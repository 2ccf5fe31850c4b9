#include "remote/folder_mirror.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/file.h"
#include "core/text.h"
#include "core/thread_pool.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = "manifest.json";
constexpr const char* kFingerprint = ".remote";  // in a unit: what was fetched

std::string without_end_slashes(std::string text) {
  while (text.ends_with('/')) text.pop_back();
  return text;
}

// Of all objects of a unit.
std::string fingerprint_of(const std::vector<ObjectInfo>& objects) {
  std::string text;
  for (const ObjectInfo& object : objects)
    text += cat(object.uri, " ", object.bytes, " ", object.modified, " ", object.etag, "\n");
  return cat(std::hex, checksum_of(text.data(), text.size()));
}

// One process at a time pulls into a folder.
class PullLock {
 public:
  explicit PullLock(const std::string& folder)
      : file_(::open((folder + "/.pull").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    if (file_.get() < 0)
      throw Error(ErrorCode::kUnavailable,
                  cat("cannot write into ", folder, ": ", std::strerror(errno)));
    while (::flock(file_.get(), LOCK_EX) != 0 && errno == EINTR) continue;
  }

 private:
  FileDescriptor file_;
};

}  // namespace

std::string mirror_folder(RemoteStorage& storage, const std::string& uri, const std::string& use) {
  const std::string bare = without_end_slashes(parse_object_uri(uri).text());
  return cat(storage.cache().folder(), "/models/", std::hex, checksum_of(bare.data(), bare.size()),
             "-", use);
}

void download_files(RemoteStorage& storage, const std::vector<FileDownload>& files) {
  struct Range {
    const FileDownload* file;
    int64_t offset, bytes;
  };
  std::vector<Range> ranges;
  for (const FileDownload& file : files) {
    make_folders(fs::path(file.path).parent_path().string());
    const FileDescriptor made(
        ::open(file.path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (made.get() < 0)
      throw Error(ErrorCode::kUnavailable,
                  cat("cannot write ", file.path, ": ", std::strerror(errno)));
    const int64_t part = storage.options().part_bytes;
    for (int64_t at = 0; at < file.object.bytes; at += part)
      ranges.push_back({&file, at, std::min(part, file.object.bytes - at)});
  }
  if (ranges.empty()) return;
  ThreadPool pool(static_cast<int>(
      std::min<size_t>(ranges.size(), static_cast<size_t>(storage.options().download_threads))));
  parallel_for(Context{.threads = &pool}, static_cast<int64_t>(ranges.size()), 1,
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const Range& range = ranges[static_cast<size_t>(i)];
                   const std::string content =
                       storage.read_range(range.file->object, range.offset, range.bytes);
                   const FileDescriptor to(::open(range.file->path.c_str(), O_WRONLY | O_CLOEXEC));
                   write_at(to.get(), content.data(), range.bytes, range.offset, range.file->path);
                 }
               });
}

FolderMirror::FolderMirror(RemoteStorage& storage, std::string uri, std::string local, int depth)
    : storage_(storage),
      uri_(without_end_slashes(parse_object_uri(uri).text())),
      local_(std::move(local)),
      depth_(depth) {
  make_folders(local_);
}

std::string FolderMirror::unit_of(const std::string& name,
                                  const std::set<std::string>& units) const {
  for (size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1))
    if (units.contains(name.substr(0, slash))) return name.substr(0, slash);
  return "";
}

bool FolderMirror::is_loose(const std::string& name) const {
  const std::vector<std::string> names = split(name, '/');
  return static_cast<int>(names.size()) <= depth_ &&
         std::none_of(names.begin(), names.end(),
                      [](const std::string& one) { return one.starts_with('.'); });
}

void FolderMirror::look() {
  units_.clear();
  objects_.clear();
  const std::string prefix = uri_ + "/";
  ObjectListing listing = storage_.list(uri_, ListDepth::kAll);
  std::sort(listing.objects.begin(), listing.objects.end(),
            [](const auto& a, const auto& b) { return a.uri < b.uri; });
  for (const ObjectInfo& object : listing.objects)
    if (object.uri.ends_with(cat("/", kManifest)))
      units_.insert(fs::path(object.uri.substr(prefix.size())).parent_path().string());
  for (ObjectInfo& object : listing.objects) {
    const std::string name = object.uri.substr(prefix.size());
    const std::string unit = unit_of(name, units_);
    if (!unit.empty() || is_loose(name)) objects_[unit].push_back(std::move(object));
  }
}

bool FolderMirror::is_current(const std::string& unit, const std::string& fingerprint) {
  const std::string folder = local_ + "/" + unit;
  if (!fs::exists(folder + "/" + kManifest)) return false;
  if (const auto known = fetched_.find(unit); known != fetched_.end())
    return known->second == fingerprint;
  std::error_code ignored;
  if (!fs::exists(folder + "/" + kFingerprint, ignored) ||
      read_text_file(folder + "/" + kFingerprint) != fingerprint)
    return false;
  // Of an earlier process: times are of whole seconds, and a manifest is small.
  if (read_text_file(folder + "/" + kManifest) !=
      storage_.read_text(remote(unit + "/" + kManifest)))
    return false;
  fetched_[unit] = fingerprint;
  return true;
}

void FolderMirror::fetch_unit(const std::string& unit, const std::vector<ObjectInfo>& objects,
                              const std::string& fingerprint) {
  const std::string made = cat(local_, "/.pull-", ::getpid());
  remove_path(made);
  std::vector<FileDownload> files;
  for (const ObjectInfo& object : objects)
    files.push_back({object, made + object.uri.substr(remote(unit).size())});
  download_files(storage_, files);
  // Written again meanwhile: the listing is out of date.
  for (const FileDownload& file : files) {
    const auto now = storage_.find(file.object.uri);
    if (!now || now->bytes != file.object.bytes || now->modified != file.object.modified)
      throw Error(ErrorCode::kUnavailable, cat(file.object.uri, " changed while it was fetched"));
  }
  write_text_file_atomically(made + "/" + kFingerprint, fingerprint);
  const std::string folder = local_ + "/" + unit;
  make_folders(fs::path(folder).parent_path().string());
  remove_path(folder);
  rename_path(made, folder);
  fetched_[unit] = fingerprint;
}

void FolderMirror::fetch_loose(const std::vector<ObjectInfo>& objects) {
  std::vector<FileDownload> files;
  const std::string made = cat(local_, "/.pull-", ::getpid());
  for (const ObjectInfo& object : objects) {
    const std::string name = object.uri.substr(uri_.size() + 1);
    const std::string fingerprint = fingerprint_of({object});
    std::string& known = fetched_[name];
    if (known == fingerprint && fs::exists(local_ + "/" + name)) continue;
    known = fingerprint;
    files.push_back({object, made + "/" + name});
  }
  download_files(storage_, files);
  for (const FileDownload& file : files) {
    const std::string name = file.object.uri.substr(uri_.size() + 1);
    make_folders(fs::path(local_ + "/" + name).parent_path().string());
    rename_path(file.path, local_ + "/" + name);
  }
  remove_path(made);
}

void FolderMirror::remove_what_is_gone() {
  std::set<std::string> loose;
  for (const ObjectInfo& object : objects_[""]) loose.insert(object.uri.substr(uri_.size() + 1));
  std::set<std::string> units;
  for (const LocalFile& file : local_files())
    if (fs::path(file.name).filename() == kManifest)
      units.insert(fs::path(file.name).parent_path().string());
  for (const std::string& unit : units)
    if (!units_.contains(unit)) {
      remove_path(local_ + "/" + unit);
      fetched_.erase(unit);
    }
  for (const LocalFile& file : local_files())
    if (unit_of(file.name, units).empty() && !loose.contains(file.name))
      remove_path(local_ + "/" + file.name);
  // Folders of models that are gone, innermost first.
  std::vector<std::string> empty;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(local_, error), end; !error && entry != end;
       entry.increment(error))
    if (entry->is_directory(error) && fs::is_empty(entry->path(), error))
      empty.push_back(entry->path().string());
  for (const std::string& folder : empty) ::rmdir(folder.c_str());
}

void FolderMirror::pull(const std::function<bool(const std::string& unit)>& wants) {
  const PullLock lock(local_);
  look();
  for (const std::string& unit : units_) {
    const std::string fingerprint = fingerprint_of(objects_[unit]);
    if (wants(unit) && !is_current(unit, fingerprint))
      fetch_unit(unit, objects_[unit], fingerprint);
  }
  fetch_loose(objects_[""]);
  remove_what_is_gone();
  same_.clear();
  for (const LocalFile& file : local_files()) same_[file.name] = file.stamp;
}

std::vector<FolderMirror::LocalFile> FolderMirror::local_files() const {
  std::vector<LocalFile> files;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(local_, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with('.')) {  // unfinished, or not for others
      if (entry->is_directory(error)) entry.disable_recursion_pending();
      continue;
    }
    struct stat status {};
    if (::stat(entry->path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    files.push_back({entry->path().string().substr(local_.size() + 1),
                     {static_cast<int64_t>(status.st_size),
                      status.st_mtim.tv_sec * int64_t{1000000000} + status.st_mtim.tv_nsec}});
  }
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return files;
}

void FolderMirror::upload(const std::vector<LocalFile>& files) {
  if (files.empty()) return;
  const int threads =
      std::min<int>(storage_.options().download_threads, static_cast<int>(files.size()));
  ThreadPool pool(threads);
  parallel_for(Context{.threads = &pool}, static_cast<int64_t>(files.size()), 1,
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const std::string& name = files[static_cast<size_t>(i)].name;
                   storage_.upload(local_ + "/" + name, remote(name));
                 }
               });
  for (const LocalFile& file : files) same_[file.name] = file.stamp;
}

void FolderMirror::push() {
  const std::vector<LocalFile> files = local_files();
  std::set<std::string> names, units;
  for (const LocalFile& file : files) {
    names.insert(file.name);
    if (fs::path(file.name).filename() == kManifest)
      units.insert(fs::path(file.name).parent_path().string());
  }
  const auto is_new = [&](const LocalFile& file) {
    const auto known = same_.find(file.name);
    return known == same_.end() || known->second != file.stamp;
  };
  for (const std::string& unit : units) {
    std::vector<LocalFile> contents;
    LocalFile manifest;
    for (const LocalFile& file : files) {
      if (unit_of(file.name, units) != unit || !is_new(file)) continue;
      if (file.name == unit + "/" + kManifest)
        manifest = file;
      else
        contents.push_back(file);
    }
    if (!contents.empty() && units_.contains(unit)) storage_.remove(remote(unit + "/" + kManifest));
    upload(contents);
    if (manifest.name.empty() && !contents.empty()) manifest = {unit + "/" + kManifest, {}};
    if (!manifest.name.empty()) upload({manifest});
    units_.insert(unit);
  }
  std::vector<LocalFile> loose;
  for (const LocalFile& file : files)
    if (unit_of(file.name, units).empty() && is_loose(file.name) && is_new(file))
      loose.push_back(file);
  upload(loose);
  std::set<std::string> gone;  // units, then what is outside of them
  for (const auto& [name, stamp] : same_)
    if (!names.contains(name) && fs::path(name).filename() == kManifest)
      gone.insert(fs::path(name).parent_path().string());
  for (const std::string& unit : gone) remove(unit);
  std::vector<std::string> loose_gone;
  for (const auto& [name, stamp] : same_)
    if (!names.contains(name)) loose_gone.push_back(name);
  for (const std::string& name : loose_gone) {
    if (unit_of(name, gone).empty()) storage_.remove(remote(name));
    same_.erase(name);
  }
}

void FolderMirror::remove(const std::string& unit) {
  storage_.remove(remote(unit + "/" + kManifest));
  storage_.remove_folder(remote(unit));
  units_.erase(unit);
}

}  // namespace emblem
