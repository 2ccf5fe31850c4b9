#include "data/format/output_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/file.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& doing, const std::error_code& why) {
  throw Error(ErrorCode::kUnavailable, cat("cannot ", doing, ": ", why.message()));
}

// "a/b/" and "./a/b" are "a/b", so that the hidden name is in the same folder.
std::string without_trailing_slash(const std::string& path) {
  EMBLEM_REQUIRE(!path.empty(), "no output folder is given");
  fs::path clean = fs::absolute(path).lexically_normal();
  if (!clean.has_filename()) clean = clean.parent_path();
  EMBLEM_REQUIRE(clean.has_filename(), "'", path,
                 "' cannot be an output folder; name a folder in it");
  return clean.string();
}

// What a data set is made of. Anything else in a folder belongs to somebody, and --force keeps off
// it.
bool belongs_to_a_data_set(const fs::path& entry) {
  const std::string name = entry.filename().string();
  if (name == "train" || name == "test") return fs::is_directory(entry);
  if (!fs::is_regular_file(entry)) return false;
  return name == "metadata.json" || name == ".index.json" || entry.extension() == ".bin" ||
         name.starts_with("part-");
}

void require_free(const std::string& target, Overwrite overwrite) {
  if (!fs::exists(fs::symlink_status(target))) return;
  EMBLEM_REQUIRE(fs::is_directory(target), "the output ", target,
                 " is a file, but a folder is written; choose another name");
  if (overwrite == Overwrite::kRefuse) {
    EMBLEM_REQUIRE(fs::is_empty(target), "the output folder ", target,
                   " is not empty; choose another or replace it with --force");
    return;
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(target)) {
    EMBLEM_REQUIRE(
        belongs_to_a_data_set(entry.path()), "the output folder ", target, " holds '",
        entry.path().filename().string(),
        "', which is not part of a data set, so it is not replaced; choose another folder");
  }
}

}  // namespace

OutputFolder::OutputFolder(const std::string& target, Overwrite overwrite)
    : target_(without_trailing_slash(target)) {
  require_free(target_, overwrite);
  const fs::path place(target_);
  for (fs::path parent = place.parent_path(); !parent.empty() && !fs::exists(parent);
       parent = parent.parent_path()) {
    made_parents_.push_back(parent.string());
  }
  partial_ = (place.parent_path() / cat(".", place.filename().string(), ".partial")).string();
  std::error_code error;
  fs::create_directories(partial_, error);
  if (error) fail("make the folder " + partial_, error);
  lock();
  // Files of a run that was killed.
  for (const fs::directory_entry& entry : fs::directory_iterator(partial_))
    fs::remove_all(entry.path());
}

void OutputFolder::lock() {
  lock_ = ::open(partial_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ < 0) fail("open the folder " + partial_, {errno, std::generic_category()});
  if (::flock(lock_, LOCK_EX | LOCK_NB) == 0) return;
  ::close(lock_);
  throw Error(ErrorCode::kUnavailable, cat("another process is writing ", target_,
                                           "; wait for it or choose another folder"));
}

OutputFolder::~OutputFolder() {
  std::error_code ignored;
  if (!committed_) {
    fs::remove_all(partial_, ignored);
    for (const std::string& parent : made_parents_) fs::remove(parent, ignored);
  }
  ::close(lock_);
}

void OutputFolder::commit() {
  sync_directory(partial_);
  const std::string replaced = partial_ + ".replaced";
  std::error_code error;
  const bool replaces = fs::exists(target_);
  if (replaces) {
    fs::remove_all(replaced);
    fs::rename(target_, replaced, error);
    if (error) fail("replace " + target_, error);
  }
  fs::rename(partial_, target_, error);
  if (error) {
    std::error_code ignored;
    if (replaces) fs::rename(replaced, target_, ignored);
    fail("move the data set to " + target_, error);
  }
  committed_ = true;
  sync_directory(fs::path(target_).parent_path().string());
  if (replaces) fs::remove_all(replaced, error);
}

}  // namespace emblem
