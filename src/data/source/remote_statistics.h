// data/source/remote_statistics.h - what reading remote objects took.
#pragma once

#include <cstdint>

namespace emblem {

// What all reads of remote objects through one storage did since its start.
struct RemoteStatistics {
  int64_t requests = 0, retries = 0;
  int64_t downloaded_bytes = 0;
  int64_t objects = 0, bytes = 0;                // that were read at all
  int64_t cached_objects = 0, cached_bytes = 0;  // objects and bytes that were in the cache before
  int64_t memory_objects = 0;                    // objects that are read through memory
  int64_t evictions = 0;
  double wait_seconds = 0;  // readers waiting for the network, summed over threads

  RemoteStatistics operator-(const RemoteStatistics& before) const;
};

}  // namespace emblem
