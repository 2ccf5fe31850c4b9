// store/redis/redis_parts.h - the partitions of a table in Redis and their marks: the fields
// #generation and #rows of each hash (store/partitioned_table.h). Keys have 4 or 8 bytes, marks
// others. Builds with Redis only.
//
// Rows and their number change in one script, so that no other server sees one without the other,
// and a script that is sent again after its reply was lost changes nothing.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "store/redis/redis_hash.h"

namespace emblem {

inline constexpr std::string_view kGenerationMark = "#generation", kRowsMark = "#rows";
inline bool is_redis_mark(std::string_view field) {
  return field == kGenerationMark || field == kRowsMark;
}

class RedisParts {
 public:
  // The most arguments that a script takes after its key.
  static constexpr size_t kMostWords = 6000;

  RedisParts(std::vector<RedisHash> hashes, std::shared_ptr<RedisCluster> cluster)
      : hashes_(std::move(hashes)), cluster_(std::move(cluster)) {}

  size_t size() const { return hashes_.size(); }
  const RedisHash& hash(size_t part) const { return hashes_[part]; }

  // Tasks whose caller appends `words` words; the first two give the number of rows afterwards.
  RedisTask insert(size_t part, size_t words, int64_t* rows) const;          // field, value, ...
  RedisTask insert_missing(size_t part, size_t words, int64_t* rows) const;  // field, value, ...
  RedisTask erase(size_t part, size_t words) const;                          // field, ...
  // Whether the partition has this generation and at least as many rows as its mark says; one that
  // has fewer loses its generation, so that all servers see it.
  RedisTask check(size_t part, const std::string& generation, bool* whole) const;
  // The partition has a damaged row: it loses its generation.
  RedisTask note_damage(size_t part, const std::string& generation) const;

  std::vector<size_t> lost(const std::string& generation) const;
  void start(std::span<const size_t> parts, const std::string& generation) const;
  // `added`, by partition: rows that were written since start, beside the scripts above.
  void finish(std::span<const size_t> parts, const std::string& generation,
              std::span<const int64_t> added) const;
  void adopt(const std::string& generation) const;
  int64_t rows() const;

 private:
  std::vector<RedisHash> hashes_;
  std::shared_ptr<RedisCluster> cluster_;
};

}  // namespace emblem
