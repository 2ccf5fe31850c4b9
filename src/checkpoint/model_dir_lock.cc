#include "checkpoint/model_dir_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/files/file.h"
#include "core/system/host_name.h"
#include "core/system/log.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

// "process 1234", or "process 1234 on host-7" when that is another machine: from "1234 host-7".
std::string holder_from(const std::string& text) {
  const size_t space = text.find(' ');
  if (space == std::string::npos) return "another process";  // has not written its number yet
  std::string host = text.substr(space + 1);
  while (host.ends_with('\n')) host.pop_back();
  const std::string process = "process " + text.substr(0, space);
  return host == host_name() ? process : process + " on " + host;
}

bool is_same_file(int descriptor, const std::string& path) {
  struct stat opened {
  }, named{};
  return ::fstat(descriptor, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

}  // namespace

ModelDirLock::ModelDirLock(std::string model_dir)
    : model_dir_(std::move(model_dir)), path_(model_dir_ + "/.lock") {
  make_folders();
  while (!try_lock()) continue;
}

void ModelDirLock::make_folders() {
  std::error_code error;
  for (fs::path at = fs::absolute(model_dir_).lexically_normal();
       !at.empty() && !fs::exists(at, error) && at != at.parent_path(); at = at.parent_path()) {
    if (at.has_filename()) made_.insert(made_.begin(), at.string());
  }
  fs::create_directories(model_dir_, error);
  if (error || !fs::is_directory(model_dir_)) {
    throw Error(ErrorCode::kUnavailable,
                cat("cannot make the model dir ", model_dir_, ": ",
                    error ? error.message() : "it is not a folder", "; give another --model-dir"));
  }
}

// False when the file was removed by its last holder in the meantime: there is a new one to lock.
bool ModelDirLock::try_lock() {
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) {
    throw Error(ErrorCode::kUnavailable, cat("cannot write into the model dir ", model_dir_, ": ",
                                             std::strerror(errno), "; give another --model-dir"));
  }
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    const int reason = errno;
    if (reason == EWOULDBLOCK) {
      const std::string holder = holder_from(read_text_file(path_));
      ::close(descriptor_);
      throw Error(ErrorCode::kUnavailable,
                  cat(model_dir_, " is in use by another training (", holder,
                      "); wait until it has ended, or give another --model-dir"));
    }
    log_warn(cat("cannot lock ", path_, ": ", std::strerror(reason),
                 "; make sure that no other training uses this model dir"));
  }
  if (!is_same_file(descriptor_, path_)) {
    ::close(descriptor_);
    return false;
  }
  const std::string text = cat(::getpid(), " ", host_name(), "\n");
  if (::ftruncate(descriptor_, 0) != 0 ||
      ::pwrite(descriptor_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    log_debug(cat("cannot write ", path_));  // a full disk: the lock holds all the same
  }
  return true;
}

ModelDirLock::~ModelDirLock() {
  ::unlink(path_.c_str());  // before the lock is released: no other process can hold this file
  ::close(descriptor_);
  for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder)
    if (::rmdir(folder->c_str()) != 0) break;
}

}  // namespace emblem
