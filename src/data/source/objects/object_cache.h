// data/source/objects/object_cache.h - a folder that keeps objects of remote stores, shared by any
// number of processes.
//
//   objects/NAME.data  the content of an object; NAME is made of its address, size and time
//   (cache_entry.h) objects/NAME.json  written last: without it the object is not there
//   partial/NAME.*     downloads, which a killed process leaves for the next one to continue
//   locks/NAME         held (flock) by the process that downloads the object
//
//   models/NAME        copies of remote folders (data/source/folder_copies.h)
//
// An object is there whole or not at all. Readers hold a shared lock on its data; what is being
// read is not evicted. Copies count for the size, and are evicted when no process uses them, unless
// they hold what the store does not have.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "data/source/cache_entry.h"
#include "data/source/file_lock.h"
#include "data/source/objects/partial_object.h"

namespace emblem {

struct CachedObject {
  int descriptor = -1;  // open for reading, with a shared lock; the caller closes it
  CacheEntry entry;
};

// What a cache holds of an object, for people.
struct CacheContent {
  std::string uri;  // "": a download that has not ended
  int64_t bytes = 0;
  int64_t last_used = 0;    // seconds since 1970
  std::string path;         // path of the data
  bool is_copy = false;     // a copy of a folder
  bool is_pending = false;  // it may hold what the store does not have
  bool is_used = false;     // a copy, by a process
};

struct ClearedCache {
  int64_t bytes = 0;
  std::vector<CacheContent> kept;  // copies that are in use or pending
};

// Thread-safe.
class ObjectCache {
 public:
  // Makes the folder. `most_bytes` 0: 80 % of what is free on its disk now, with what the cache
  // has. Throws Error that names the option when the folder cannot be made.
  ObjectCache(std::string folder, int64_t most_bytes);

  const std::string& folder() const { return folder_; }
  int64_t most_bytes() const { return most_bytes_; }

  // The object if it is there, whole and intact; what is damaged is removed. Counts as a use.
  std::optional<CachedObject> find(const ObjectInfo& info);
  // Stores that the object was found unchanged now.
  void confirm(const ObjectInfo& info, CacheEntry entry);
  // Removes a copy that is out of date.
  void forget(const ObjectInfo& info);

  std::unique_ptr<FileLock> try_lock(const ObjectInfo& info) const;
  // Nanoseconds since 1970 of the last part of a download that another process wrote; 0: there is
  // none.
  int64_t last_progress(const ObjectInfo& info) const;

  // Removes the least recently used objects until `bytes` more fit. False when they do not.
  bool make_room(int64_t bytes);
  // Begins or continues a download; with the lock held.
  std::unique_ptr<PartialObject> begin(const ObjectInfo& info, int64_t part_bytes);
  // The object is whole now.
  void commit(PartialObject& partial, const std::string& etag);

  // Kept until the cache is destroyed: what a process reads for an unknown time.
  void hold(std::unique_ptr<FileLock> lock);

  int64_t evictions() const;

  std::vector<CacheContent> list() const;
  // Removes all objects, downloads that no process continues, and copies of folders that are
  // neither in use nor pending.
  ClearedCache clear();
  // Compares all checksums, those of copies of folders, too; removes what is damaged and returns
  // it. Copies that a training works in have none.
  std::vector<CacheContent> verify();

 private:
  std::string path(const char* folder, const std::string& name, const char* ending) const;
  std::optional<CacheEntry> read_entry(const std::string& name) const;
  void write_entry(const std::string& name, CacheEntry entry, int data) const;
  void remove_object(const std::string& name) const;
  bool is_intact(int data, const CacheEntry& entry) const;
  int64_t used_bytes() const;
  bool evict(const std::string& name, const std::string& file) const;

  std::string folder_;
  int64_t most_bytes_;

  mutable std::mutex mutex_;  // guards what follows
  int64_t used_ = 0;          // at the last scan, and what was begun since
  int64_t scanned_ = 0;       // seconds of a steady clock
  int64_t evictions_ = 0;
  std::vector<std::unique_ptr<FileLock>> held_;
};

// `folder`, or EMBLEM_CACHE, or the user's cache folder.
std::string cache_folder(const std::string& folder);

}  // namespace emblem
