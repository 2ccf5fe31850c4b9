// ps/parameter_server.h - the tables of all models that are served, and the databases under them.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "ps/config/ps_config.h"
#include "ps/tables/cache_refresher.h"
#include "ps/tables/promotion_queue.h"
#include "ps/tables/served_model.h"
#include "ps/updates/delta_watcher.h"
#include "ps/updates/kafka_updates.h"
#include "store/kv_store.h"

namespace emblem {

// A table of a model to load: a checkpoint's folder of the table, or a sparse model of HPS.
struct TableSource {
  std::string name;
  std::string folder;
  int64_t dim = 0;
  // What unknown keys read as: TableSettings::missing and seed, or a constant.
  Initializer missing = {Initializer::Kind::kConstant, 0.0f, 0.0f};
  uint64_t seed = 1;
};

// The name of a table in databases and of its topic in Kafka.
std::string served_table_name(const std::string& model, const std::string& table);

// Thread-safe: models are loaded and unloaded while others, and other versions of the same, are
// read.
//
// Rows in the memory of this process belong to one version of a model, and leave with it. Redis and
// RocksDB keep one table whatever the version, as with HPS: loading another version writes over the
// rows of the one before, which reads them from then on.
//
// A Redis that comes back without its rows is noticed: it is not read until it has been filled
// again from L3 or from the files of the model.
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
  // Those who hold the model may go on to use it. No error when there is none.
  void unload_model(const std::string& name, int64_t version);

  std::shared_ptr<ServedModel> find(const std::string& name, int64_t version) const;  // or null
  std::vector<std::shared_ptr<ServedModel>> models() const;
  std::vector<std::shared_ptr<ServedModel>> versions(const std::string& name) const;

  // Reads what faster tiers hold of a model's rows anew from the slowest.
  void refresh(const std::string& name) const;
  // The same of caches on devices alone. Happens by itself where ps.json says so.
  void refresh_caches(const std::string& name) const;

  // Applies deltas that appear in the folder to all versions of the model, from now on.
  void watch_deltas(const std::string& model, const std::string& folder,
                    std::chrono::milliseconds every = std::chrono::milliseconds(500));
  void look_for_deltas(const std::string& model);  // now
  KafkaUpdates::Counts kafka_counts() const;

  const PsConfig& config() const { return config_; }
  PromotionQueue& promotions() { return promotions_; }

 private:
  struct Loading;
  bool load_table(Loading& loading, const TableSource& source);
  bool is_in_use(const std::string& model) const;
  KvStore* authority() const;
  void settle_sequence(ServedModel& model, bool filled, int64_t updates_included);
  void start_kafka();
  void start_refresher();
  void watch_redis();
  void refill_lost_tables();
  void apply_update(const std::string& topic, std::span<const int64_t> keys,
                    std::span<const float> rows, int64_t dim, int64_t created_unix_ms) const;
  void models_changed();

  const PsConfig config_;
  std::unique_ptr<KvStore> redis_, rocksdb_;
  PromotionQueue promotions_;
  std::mutex loading_;  // one model at a time
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int64_t>, std::shared_ptr<ServedModel>> models_;
  std::vector<std::weak_ptr<ServedModel>> alive_;  // unloaded ones that are in use as well
  std::map<std::string, std::shared_ptr<DeltaWatcher>> watchers_;  // by model
  // What Redis is filled from again should it come back empty, by a table's name there.
  struct RedisFill {
    std::weak_ptr<ServedModel> model;
    std::weak_ptr<ServedTable> table;
    std::string folder, tag;
    int64_t updates_included = 0;
  };
  std::map<std::string, RedisFill> redis_fills_;
  std::unique_ptr<KafkaUpdates> kafka_;
  std::unique_ptr<CacheRefresher> refresher_, redis_watch_;
};

}  // namespace emblem
