// ps/config/databases.h - the databases that ps.json names, opened.
#pragma once

#include <memory>
#include <mutex>

#include "ps/config/ps_config.h"
#include "store/redis/redis_store.h"

namespace emblem {

struct Databases {
  // Throws kUnavailable or kInvalidArgument when one cannot be opened.
  explicit Databases(const PsConfig& config);

  // Whether rows are anywhere but in the memory of this process.
  bool any() const { return redis != nullptr || rocksdb != nullptr; }
  // Whether updates go to L3, too.
  bool updates_l3() const { return rocksdb != nullptr && !read_only; }

  std::unique_ptr<SharedKvStore> redis;  // L2; null: it is memory, or there is none
  std::unique_ptr<KvStore> rocksdb;      // L3; may be null
  bool read_only = false;                // L3

  // Held in this process while tables in a database are filled, or a delta is applied to them.
  std::mutex changing;
};

}  // namespace emblem
