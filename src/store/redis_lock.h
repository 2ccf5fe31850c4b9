// store/redis_lock.h - StoreLock in Redis: the key emblem_lock{NAME}, which expires. Builds with
// Redis only.
#pragma once

#include <memory>

#include "store/redis_cluster.h"
#include "store/redis_store.h"

namespace emblem {

// Null when another process has it.
std::unique_ptr<StoreLock> try_redis_lock(std::shared_ptr<RedisCluster> cluster,
                                          const std::string& name, std::chrono::milliseconds lease);

}  // namespace emblem
