// data/source/cache_entry.h - what a cache knows of an object that it holds: the file NAME.json
// beside NAME.data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/source/objects/object_store.h"

namespace emblem {

struct CacheEntry {
  ObjectInfo object;                // its uri without signatures
  int64_t part_bytes = 0;           // checksums are of parts of this size
  std::vector<uint64_t> checksums;  // core/math/checksum.h
  int64_t fetched = 0;              // seconds since 1970
  // The state of the data file when its checksums were last compared; in another, and after the
  // machine was started again, they are compared once more.
  std::string boot;
  int64_t data_changed = 0;  // nanoseconds; of the last change, which programs cannot set (ctime)
};

// JSON with a checksum of itself.
std::string cache_entry_text(const CacheEntry& entry);
// Nothing for any text that cache_entry_text did not write.
std::optional<CacheEntry> parse_cache_entry(const std::string& text);

int64_t parts_of(int64_t bytes, int64_t part_bytes);

// The name in the cache of what `info` describes: of its endpoint, address, size and time, or its
// etag where the time is not known.
std::string cache_name(const ObjectInfo& info);

// Id of this start of the machine.
const std::string& boot_id();

}  // namespace emblem
