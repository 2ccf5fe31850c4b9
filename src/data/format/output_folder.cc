#include "data/format/output_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/files/file.h"
#include "core/text/text.h"
#include "data/source/data_set_manifest.h"
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

constexpr std::string_view kParts[] = {"train/", "test/"};

void require_free(const std::string& target, Overwrite overwrite) {
  if (!fs::exists(fs::symlink_status(target))) return;
  EMBLEM_REQUIRE(fs::is_directory(target), "the output ", target,
                 " is a file, but a folder is written; choose another name");
  if (overwrite == Overwrite::kRefuse) {
    EMBLEM_REQUIRE(fs::is_empty(target), "the output folder ", target,
                   " is not empty; choose another or replace it with --force");
    return;
  }
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(target)) {
    const std::string name = entry.path().lexically_relative(target).string();
    const bool is_expected =
        entry.is_directory() && !entry.is_symlink()
            ? std::ranges::find(kParts, name + "/") != std::end(kParts)
            : fs::is_regular_file(entry.symlink_status()) && is_name_in_data_set(name);
    EMBLEM_REQUIRE(
        is_expected, "the output folder ", target, " holds '", printable(name),
        "', which is not part of a data set, so it is not replaced; choose another folder");
  }
}

}  // namespace

bool is_name_in_data_set(std::string_view name) {
  for (const std::string_view part : kParts)
    if (name.starts_with(part)) {
      name.remove_prefix(part.size());
      break;
    }
  if (name.find('/') != name.npos) return false;
  if (name.starts_with("category_") && name.ends_with(".bin")) return true;
  constexpr std::string_view kNames[] = {
      "metadata.json", ".index.json", kDataSetManifest, "label.bin",          "dense.bin",
      "category.bin",  "items.txt",   "users.txt",      "positive_edges.txt", "hard_edges.txt"};
  return name.starts_with("part-") || std::ranges::find(kNames, name) != std::end(kNames);
}

OutputFolder::OutputFolder(const std::string& target, Overwrite overwrite)
    : target_(without_trailing_slash(target)), overwrite_(overwrite) {
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
  require_free(target_, overwrite_);  // there may be other files since
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
