#include "remote/unit_copy.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>

#include "core/files/file.h"
#include "core/files/inner_path.h"
#include "core/system/log.h"
#include "core/system/seconds_since.h"
#include "core/text/text.h"
#include "data/source/folder_copies.h"
#include "data/source/objects/copy_check.h"
#include "emblem/error.h"
#include "remote/download.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kPart = ".part";  // what has arrived of a unit
constexpr int kDamagedCopies = 3;       // that are fetched again

int64_t bytes_below(const std::string& folder) {
  int64_t bytes = 0;
  std::error_code error, ignored;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    if (entry->is_regular_file(ignored)) bytes += static_cast<int64_t>(entry->file_size(ignored));
  return bytes;
}

// Whether another process still makes progress with the download into `copy`.
class Watch {
 public:
  Watch(const std::string& copy, double stall_seconds)
      : copy_(copy), stall_(stall_seconds), since_(Clock::now()) {}
  bool is_stalled() {
    const int64_t now = bytes_below(copy_);
    if (now != bytes_) {
      bytes_ = now;
      since_ = Clock::now();
    }
    return seconds_since(since_) >= stall_;
  }

 private:
  std::string copy_;
  double stall_;
  Clock::time_point since_;
  int64_t bytes_ = -1;
};

std::optional<UnitCopy> held_copy(const std::string& copy, const std::string& path,
                                  const std::string& fingerprint) {
  auto lock = FileLock::try_lock(lock_of_copy(copy), LockMode::kShared);
  std::error_code ignored;
  if (lock == nullptr || !fs::exists(path, ignored)) return std::nullopt;
  touch_copy(copy);
  return UnitCopy{path, fingerprint, std::move(lock)};
}

bool is_intact(const std::string& copy) { return is_copy_intact(copy, CompareCopy::kWhereChanged); }

// Downloads with the lock held exclusively.
void download(const RemoteFolder& folder, const std::string& unit, const std::string& fingerprint,
              const std::string& copy, const std::string& path, const FetchOptions& options) {
  const std::string part = copy + "/" + kPart;
  remove_path(part);
  remove_path(path);  // damaged
  make_folders(part);
  write_copy_address(copy, folder.address(unit));
  const std::vector<ObjectInfo>& objects = folder.units().at(unit);
  std::vector<FileDownload> files;
  int64_t bytes = 0;
  for (const ObjectInfo& object : objects) {
    const std::string name = object.uri.substr(folder.address(unit).size() + 1);
    files.push_back({object, path_below(part, name, Links::kRefuse)});
    bytes += object.bytes;
  }
  ObjectCache& cache = folder.storage().cache();
  if (!cache.make_room(bytes))
    log_warn(cat("the copy of ", folder.address(unit), " (",
                 format_bytes(static_cast<double>(bytes)), ") makes ", cache.folder(),
                 " larger than its limit (--cache-size ",
                 format_bytes(static_cast<double>(cache.most_bytes())), ")"));
  download_files(folder.storage(), files);
  if (fingerprint_of(folder.storage(), objects) != fingerprint)
    throw Error(ErrorCode::kUnavailable,
                cat(shown_uri(folder.address(unit)), " changed while it was fetched"));
  if (options.check) options.check(part);
  rename_path(part, path);
  write_copy_checksums(copy);
}

}  // namespace

UnitCopy fetch_unit(const RemoteFolder& folder, const std::string& unit,
                    const std::string& fingerprint, const FetchOptions& options) {
  const std::string name = unit.substr(unit.rfind('/') + 1);
  std::string copy = copy_path(folder.storage().cache().folder(), "unit-" + fingerprint);
  const std::string own =
      copy_path(folder.storage().cache().folder(), cat("unit-", fingerprint, "-", ::getpid()));
  Watch watch(copy, options.stall_seconds);
  int damaged = 0;
  while (true) {
    const std::string path = copy + "/" + name;
    bool is_damaged = false;
    if (auto held = held_copy(copy, path, fingerprint)) {
      if (is_intact(copy)) return std::move(*held);
      is_damaged = true;
    }
    if (is_damaged && ++damaged > kDamagedCopies)
      throw Error(ErrorCode::kCorruption, cat(copy,
                                              " differs from the data written to it; check the "
                                              "disk, or choose another cache folder with "
                                              "--cache-dir"));
    if (is_damaged)
      log_warn(
          cat(copy, ", a copy of ", folder.address(unit), ", is damaged; it is fetched again"));
    std::error_code ignored;
    if (const auto lock = FileLock::try_lock(lock_of_copy(copy))) {
      if (!fs::exists(path, ignored) || !is_intact(copy))
        download(folder, unit, fingerprint, copy, path, options);
      continue;  // and hold it, unless it is evicted in between
    }
    const bool is_stalled = watch.is_stalled();
    if (is_stalled)
      log_warn(cat(lock_holder(lock_of_copy(copy)), " downloads ", folder.address(unit),
                   ", but nothing has arrived for ", options.stall_seconds,
                   " s; it is downloaded once more"));
    if (is_stalled || is_damaged) {  // others may read the damaged one
      copy = own;
      watch = Watch(copy, options.stall_seconds);
      continue;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace emblem
