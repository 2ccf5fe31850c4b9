// store/redis/redis_hash.h - commands on a Redis hash. Builds with Redis only.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "store/redis/redis_cluster.h"

namespace emblem {

// Throws kCorruption unless the reply to `command` is of that kind.
void expect_redis_item(const RedisItem& item, RedisItem::Kind kind, std::string_view command);

struct RedisHash {
  explicit RedisHash(std::string its_key) : key(std::move(its_key)), slot(redis_slot(key)) {}

  std::string key;
  uint16_t slot;

  // A command on the hash, to which the caller appends `words` more words. Its reply is one item,
  // which is ignored unless the caller sets `take`.
  RedisTask begin(std::string_view command, size_t words) const;
  // A Lua script whose KEYS[1] is the hash, to which the caller appends `words` more words, its
  // ARGV. It must be one that can be repeated. Its reply, an integer, goes to `result` unless null.
  RedisTask eval(std::string_view script, size_t words, int64_t* result) const;
  // HMGET of `fields`, of which the caller appends each: calls take(i, item) for each in order.
  RedisTask get(size_t fields, std::function<void(size_t, const RedisItem&)> take) const;

  using TakeField = std::function<void(std::string_view field, std::string_view value)>;
  // One page of about `count` fields; returns the cursor of the next, "0" at the end.
  std::string scan(RedisCluster& cluster, const std::string& cursor, int64_t count,
                   const TakeField& take) const;
  void scan_all(RedisCluster& cluster, int64_t count, const TakeField& take) const;
};

}  // namespace emblem
