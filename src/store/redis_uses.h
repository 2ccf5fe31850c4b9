// store/redis_uses.h - when or how often the rows of a table in Redis were used, as HPS keeps it
// for eviction: the hashes hps_et{TABLE/pN}t, a field for each key. Builds with Redis only.
//
// Counts are written as absolute numbers, so that a command can be sent again after its reply was
// lost. Of uses that several servers count at the same moment, some may be missed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "store/key_bytes.h"
#include "store/redis_hash.h"

namespace emblem {

class RedisUses {
 public:
  // `hashes`: by partition. `settings` are borrowed.
  RedisUses(std::vector<RedisHash> hashes, const RedisSettings& settings);

  // Whether the policy needs uses at all.
  bool are_kept() const { return kept_; }
  const RedisHash& hash(size_t part) const { return hashes_[part]; }

  // Asks for the counts of keys[numbers[i]] so far, which go to counts[numbers[i]], where the
  // policy needs them. All but `tasks` must stay until the tasks have run.
  void read(size_t part, std::span<const int64_t> keys, std::span<const uint32_t> numbers,
            std::span<int64_t> counts, std::vector<RedisTask>& tasks) const;
  // Notes one more use of each, now.
  void write(size_t part, std::span<const int64_t> keys, std::span<const uint32_t> numbers,
             std::span<const int64_t> counts, std::vector<RedisTask>& tasks) const;

  // What to evict first comes first: small is old, or seldom used.
  int64_t rank(std::string_view use) const;

 private:
  std::vector<RedisHash> hashes_;
  const RedisSettings& settings_;
  KeyBytes encoding_;
  OverflowPolicy policy_;
  bool kept_;
};

}  // namespace emblem
