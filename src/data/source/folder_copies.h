// data/source/folder_copies.h - copies of remote folders in the cache folder: what readers fetched,
// what a training works in, what is about to be uploaded.
//
//   models/NAME       a copy
//   models/NAME.lock  held (data/source/file_lock.h) by the processes that use the copy
//
// In a copy, the hidden file .address says what it is a copy of; while .pending exists, it may hold
// what the store does not have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace emblem {

struct FolderCopy {
  std::string path;
  std::string uri;  // "": not known
  int64_t bytes = 0;
  int64_t last_used = 0;    // nanoseconds since 1970
  bool is_pending = false;  // it may hold what the store does not have
  bool is_used = false;     // by a process
};

// CACHE/models/NAME
std::string copy_path(const std::string& cache, const std::string& name);
inline std::string lock_of_copy(const std::string& path) { return path + ".lock"; }

// The copy exists.
void write_copy_address(const std::string& path, const std::string& uri);
// Durable when it returns.
void mark_copy_pending(const std::string& path);
void mark_copy_uploaded(const std::string& path);

// All copies of a cache folder.
std::vector<FolderCopy> list_copies(const std::string& cache);

// Removes a copy, unless a process uses it or it is pending: then false.
bool remove_copy(const std::string& path);
// Removes the copies whose names begin with `prefix`, unless a process uses them: those that a
// killed process left.
void remove_unused_copies(const std::string& cache, const std::string& prefix);
// The same as remove_copy, with its lock held exclusively.
void remove_locked_copy(const std::string& path);

// Counts as a use.
void touch_copy(const std::string& path);

}  // namespace emblem
