// data/source/objects/partial_object.h - an object that is being downloaded into the cache, part by
// part and in any order. What a killed process has downloaded, the next one keeps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/files/file_descriptor.h"
#include "data/source/cache_entry.h"

namespace emblem {

// The names of its files. parts: a record for every part that is there, with its checksum.
struct PartialPaths {
  std::string data, parts;
};

// write_part may run concurrently for different parts; whoever makes it holds the object's lock.
class PartialObject {
 public:
  // Opens what is there of `object`; parts whose checksum is wrong are not there. Throws
  // kUnavailable when the disk is full (is_disk_full) or the folder cannot be written.
  PartialObject(PartialPaths paths, const ObjectInfo& object, int64_t part_bytes);

  int64_t parts() const { return static_cast<int64_t>(done_.size()); }
  int64_t part_bytes() const { return part_bytes_; }
  // Whether it was there when this was opened.
  bool was_done(int64_t part) const { return done_[static_cast<size_t>(part)] != 0; }
  int descriptor() const { return data_.get(); }

  void write_part(int64_t part, const char* content, int64_t bytes);

  // With all parts written: the entry for the cache.
  CacheEntry entry(const std::string& etag) const;
  // Removes the files.
  void discard();
  const PartialPaths& paths() const { return paths_; }

 private:
  void read_parts();

  PartialPaths paths_;
  ObjectInfo object_;
  int64_t part_bytes_;
  FileDescriptor data_, records_;
  std::vector<uint8_t> done_;
  std::vector<uint64_t> checksums_;
};

// Writes all of `content` at `offset`. Throws kUnavailable with the reason; kOutOfMemory when the
// disk is full.
void write_at(int descriptor, const void* content, int64_t bytes, int64_t offset,
              const std::string& path);

}  // namespace emblem
