// ps/loading/tier_loader.h - the tables of a model version, brought into their tiers.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "ps/config/databases.h"
#include "ps/config/ps_config.h"
#include "ps/loading/redis_guard.h"
#include "ps/tables/promotion_queue.h"
#include "ps/tables/served_model.h"
#include "ps/tables/table_source.h"

namespace emblem {

// What a database has from the same content already is left as it is, with all updates since.
class TierLoader {
 public:
  // All are borrowed; `redis` and `guard` are null where there is no Redis.
  TierLoader(const PsConfig& config, Databases& databases, RedisFiller* redis, RedisGuard* guard,
             PromotionQueue& promotions)
      : config_(config),
        databases_(databases),
        redis_(redis),
        guard_(guard),
        promotions_(promotions) {}

  // kShared: a version of the model is in use, whose tables in databases are the same.
  enum class Tables { kOwn, kShared };

  // Gives `model` its tables and the number of the delta that they have. `updates_included`: the
  // last delta that the files contain.
  void load(const std::shared_ptr<ServedModel>& model, std::span<const TableSource> sources,
            int64_t updates_included, Tables tables);

 private:
  struct Loading;  // one table
  std::vector<Loading> prepare(const ServedModel& model,
                               std::span<const TableSource> sources) const;
  void fill_l3(const std::string& model, std::vector<Loading>& tables, int64_t updates_included,
               Tables shared);
  void fill_memory(std::vector<Loading>& tables);
  void check_overflow(std::span<const Loading> tables) const;
  void fill_redis(const std::shared_ptr<ServedModel>& model, std::vector<Loading>& tables,
                  int64_t updates_included);
  std::shared_ptr<ServedTable> serve(const Loading& table);
  int64_t sequence_of(const std::string& model, int64_t updates_included) const;

  const PsConfig& config_;
  Databases& databases_;
  RedisFiller* redis_;
  RedisGuard* guard_;
  PromotionQueue& promotions_;
};

}  // namespace emblem
