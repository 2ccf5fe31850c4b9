// ps/loading/redis_guard.h - notices what Redis loses of the tables of loaded models, and has it
// filled again. Lookups notice by themselves, and read from L3 meanwhile; without L3 the guard
// gives them the rows of the files.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ps/loading/redis_filler.h"

namespace emblem {

// Thread-safe.
class RedisGuard {
 public:
  RedisGuard(SharedKvStore& redis, RedisFiller& filler) : redis_(redis), filler_(filler) {}

  void guard(const std::shared_ptr<ServedModel>& model, std::vector<RedisFiller::Table> tables,
             int64_t updates_included);
  // Looks at all tables; to be called at intervals. What Redis has lost, and what a server that
  // died has left half filled, is logged, filled again unless another server is doing it, and
  // counted by the table. Throws kUnavailable.
  void look();

 private:
  struct Guarded {
    std::weak_ptr<ServedModel> model;
    RedisFiller::Table table;  // without `served`, which the model owns
    std::weak_ptr<ServedTable> served;
    int64_t updates_included = 0;
  };
  void look_at(ServedModel& model, const RedisFiller::Table& table, int64_t updates_included);
  void report(const RedisFiller::Table& table, const RedisFiller::Lost& lost);
  void serve_from_files(const RedisFiller::Table& table, const std::vector<size_t>& parts);

  SharedKvStore& redis_;
  RedisFiller& filler_;
  std::mutex mutex_;
  std::map<std::string, Guarded> guarded_;  // by the table's name in Redis
  std::mutex looking_;                      // one look at a time
  std::map<std::string, std::vector<size_t>> reported_;  // partitions that are lost, by table
};

}  // namespace emblem
