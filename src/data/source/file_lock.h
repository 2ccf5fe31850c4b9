// data/source/file_lock.h - locks among the processes of a machine (flock). The system releases
// those of a killed process.
#pragma once

#include <memory>
#include <string>

#include "core/files/file_descriptor.h"

namespace emblem {

// kShared: of any number of holders; none of them is exclusive.
enum class LockMode { kShared, kExclusive };

// Held until it is destroyed. An exclusive one then removes the file.
class FileLock {
 public:
  // Makes the file. Nothing when another process, or another lock of this one, is in the way.
  // Throws kUnavailable when the file cannot be made or locked.
  static std::unique_ptr<FileLock> try_lock(const std::string& path,
                                            LockMode mode = LockMode::kExclusive);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  // Puts the number of this process into the file, for the messages of others.
  void sign() const;

 private:
  FileLock(std::string path, LockMode mode, int descriptor)
      : path_(std::move(path)), mode_(mode), descriptor_(descriptor) {}
  std::string path_;
  LockMode mode_;
  FileDescriptor descriptor_;
};

// "process 1234" of a lock that was signed, or "another process".
std::string lock_holder(const std::string& path);

}  // namespace emblem
