// checkpoint/model_dir_lock.h - one training at a time in a model dir.
#pragma once

#include <string>
#include <vector>

namespace emblem {

// Holds an advisory lock (flock on MODEL_DIR/.lock) for its lifetime. The system releases the lock
// of a killed process; the file that it leaves is harmless. Readers take no lock. Where the file
// system has no locks, a warning is logged and nothing is locked.
class ModelDirLock {
 public:
  // Makes the folder when it is missing. Throws Error when it cannot be made or written, and when
  // another process holds the lock: which one.
  explicit ModelDirLock(std::string model_dir);
  // Removes the lock file, and the folders that were made here if they are still empty.
  ~ModelDirLock();
  ModelDirLock(const ModelDirLock&) = delete;
  ModelDirLock& operator=(const ModelDirLock&) = delete;

 private:
  void make_folders();
  bool try_lock();

  std::string model_dir_, path_;
  std::vector<std::string> made_;  // folders, outermost first
  int descriptor_ = -1;
};

}  // namespace emblem
