// ps/parameter_server.h - the tables of all models that are served, and the databases under them.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "ps/config/databases.h"
#include "ps/config/ps_config.h"
#include "ps/loading/redis_filler.h"
#include "ps/loading/tier_loader.h"
#include "ps/tables/periodic_task.h"
#include "ps/tables/promotion_queue.h"
#include "ps/tables/served_model.h"
#include "ps/tables/table_source.h"
#include "ps/updates/delta_watcher.h"
#include "ps/updates/update_intake.h"

namespace emblem {

// The versions of models that are loaded.
// Thread-safe.
class ModelRegistry {
 public:
  using Models = std::vector<std::shared_ptr<ServedModel>>;

  // Takes the place of one of the same name and version.
  void add(std::shared_ptr<ServedModel> model);
  // Its users may continue with it. No error when there is none.
  void remove(const std::string& name, int64_t version);

  std::shared_ptr<ServedModel> find(const std::string& name, int64_t version) const;  // or null
  Models all() const;
  Models versions(const std::string& name) const;
  // Whether a version exists, be it removed and still in use.
  bool is_in_use(const std::string& name) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int64_t>, std::shared_ptr<ServedModel>> models_;
  std::vector<std::weak_ptr<ServedModel>> alive_;  // all that were added and still exist
};

// Thread-safe: models are loaded and unloaded while others, and other versions of the same, are
// read.
//
// Rows in the memory of this process belong to one version of a model, and leave with it. Redis and
// RocksDB keep one table whatever the version, as with HPS: loading another version writes over the
// rows of the one before, which reads them from then on.
//
// A Redis that has lost rows is noticed, by partition: what it has lost is served from L3 or from
// the files of the model until it has been filled again from there.
class ParameterServer {
 public:
  // Without a configuration, rows are in memory. Opens the databases; throws kUnavailable or
  // kInvalidArgument when one cannot be.
  explicit ParameterServer(PsConfig config = {});
  ~ParameterServer();

  // Fills the tiers: all rows into L3 and L2. What a persistent database has from the same files
  // already is left as it is, with all updates since. `updates_included` is the sequence number of
  // the last delta that the files contain. Takes the place of a model of the same name and version.
  std::shared_ptr<ServedModel> load_model(const std::string& name, int64_t version,
                                          std::span<const TableSource> tables,
                                          int64_t updates_included = 0);
  // As ps.json describes it. Throws kNotFound when it does not.
  std::shared_ptr<ServedModel> load_model(const std::string& name, int64_t version);
  // Users of the model may continue with it. No error when there is none.
  void unload_model(const std::string& name, int64_t version);

  std::shared_ptr<ServedModel> find(const std::string& name, int64_t version) const {  // or null
    return models_.find(name, version);
  }
  ModelRegistry::Models models() const { return models_.all(); }
  ModelRegistry::Models versions(const std::string& name) const { return models_.versions(name); }

  // Reads what faster tiers hold of a model's rows again from the slowest.
  void refresh(const std::string& name) const;
  // The same of caches on devices alone. Happens by itself where ps.json says so.
  void refresh_caches(const std::string& name) const;

  // Applies the deltas in the folder to all versions of the model, those that are loaded later as
  // well: what is there before it returns, and then what appears.
  void watch_deltas(const std::string& model, const std::string& folder,
                    std::chrono::milliseconds every = std::chrono::milliseconds(100));
  void look_for_deltas(const std::string& model);  // now
  KafkaUpdates::Counts kafka_counts() const { return intake_->counts(); }

  const PsConfig& config() const { return config_; }
  PromotionQueue& promotions() { return promotions_; }

 private:
  void start_refresher();
  void watch_redis();

  const PsConfig config_;
  Databases databases_;
  PromotionQueue promotions_;
  ModelRegistry models_;
  std::unique_ptr<RedisFiller> redis_filler_;  // null: no Redis
  std::unique_ptr<RedisGuard> redis_guard_;
  TierLoader loader_;
  DeltaApplier applier_;
  std::mutex loading_;  // one model at a time
  std::mutex watchers_mutex_;
  std::map<std::string, std::shared_ptr<DeltaWatcher>> watchers_;  // by model
  std::unique_ptr<UpdateIntake> intake_;
  std::unique_ptr<PeriodicTask> refresher_, redis_watch_;
};

}  // namespace emblem
