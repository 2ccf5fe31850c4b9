#include "ps/parameter_server.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "core/log.h"
#include "core/text.h"
#include "core/thread_pool.h"
#include "ps/config/sparse_folder.h"
#include "store/memory_store.h"
#include "store/redis_store.h"
#include "store/rocksdb_store.h"

namespace emblem {
namespace {

constexpr int64_t kCopyRows = 16384;  // from L3 to L2 at a time
constexpr const char* kPrefix = "hps_et.";
constexpr const char* kRefilling = "refilling";  // in the place of a table's tag: rows are missing
constexpr double kRedisWatchSeconds = 0.5;

std::string loaded_note(const std::string& table) { return "loaded." + table; }
std::string sequence_note(const std::string& model) { return "sequence." + model; }

int64_t redis_partitions(const PsVolatile& db) {
  return db.num_partitions > 0 ? db.num_partitions : std::min(16, available_cpus());
}

RedisSettings redis_settings(const PsConfig& config) {
  const PsVolatile& db = config.volatile_db;
  return {.endpoints = parse_redis_endpoints(db.address),
          .user = db.user_name,
          .password = db.password,
          .tls = {db.enable_tls, db.tls_ca_certificate, db.tls_client_certificate,
                  db.tls_client_key, db.tls_server_name_identification},
          .partitions = redis_partitions(db),
          .connections_per_node = db.num_node_connections,
          .max_batch = db.max_batch_size,
          .key_bytes = config.key_bytes(),
          .overflow = db.overflow};
}

RocksDbSettings rocksdb_settings(const PsConfig& config) {
  const PsPersistent& db = config.persistent_db;
  return {.path = db.path,
          .threads = db.num_threads,
          .read_only = db.read_only,
          .max_batch = db.max_batch_size,
          .key_bytes = config.key_bytes()};
}

void copy(const SparseFolder& from, KvTable& to) {
  from.read([&](std::span<const int64_t> keys, std::span<const float> rows) {
    to.bulk_insert(keys, rows);
  });
  to.finish_bulk();
}

void copy(const KvTable& from, KvTable& to) {
  from.iterate(kCopyRows, [&](std::span<const int64_t> keys, std::span<const float> rows) {
    to.bulk_insert(keys, rows);
  });
  to.finish_bulk();
}

}  // namespace

std::string served_table_name(const std::string& model, const std::string& table) {
  const auto is_name = [](const std::string& name) {
    return !name.empty() && name.size() <= 120 &&
           std::all_of(name.begin(), name.end(), [](unsigned char c) {
             return std::isalnum(c) || c == '_' || c == '-' || c == '.';
           });
  };
  EMBLEM_REQUIRE(is_name(model) && is_name(table), "\"", model, "\", \"", table,
                 "\": names of models and tables are 1 to 120 letters, digits, '_', '-' and '.'");
  return cat(kPrefix, model, ".", table);
}

ParameterServer::ParameterServer(PsConfig config) : config_(std::move(config)) {
  if (config_.volatile_db.type == PsVolatile::Type::kRedis) {
    redis_ = make_redis_store(redis_settings(config_));
  }
  if (config_.persistent_db.type == PsPersistent::Type::kRocksDb) {
    rocksdb_ = make_rocksdb_store(rocksdb_settings(config_));
  }
  if (config_.update_source.type == PsUpdateSource::Type::kKafka) start_kafka();
  start_refresher();
  if (redis_ != nullptr) watch_redis();
}

ParameterServer::~ParameterServer() {
  redis_watch_.reset();
  refresher_.reset();
  kafka_.reset();  // they write into tables
  watchers_.clear();
}

void ParameterServer::start_refresher() {
  std::vector<CacheRefresher::Plan> plans;
  for (const PsModel& model : config_.models) {
    if (model.refresh_interval_s > 0)
      plans.push_back({model.name, model.refresh_delay_s, model.refresh_interval_s});
  }
  if (plans.empty()) return;
  refresher_ = std::make_unique<CacheRefresher>(
      std::move(plans), [this](const std::string& model) { refresh_caches(model); });
}

void ParameterServer::watch_redis() {
  redis_watch_ = std::make_unique<CacheRefresher>(
      std::vector<CacheRefresher::Plan>{{"redis", kRedisWatchSeconds, kRedisWatchSeconds}},
      [this](const std::string&) {
        try {
          refill_lost_tables();
        } catch (const Error& error) {
          // When it is out of reach, those who ask are told.
          if (error.code() != ErrorCode::kUnavailable)
            log_warn(cat("redis cannot be filled again: ", error.what()));
        }
      });
}

void ParameterServer::refill_lost_tables() {
  std::lock_guard one_at_a_time(loading_);
  std::map<std::string, RedisFill> fills;
  {
    std::lock_guard lock(mutex_);
    fills = redis_fills_;
  }
  for (const auto& [name, fill] : fills) {
    const auto table = fill.table.lock();
    const auto model = fill.model.lock();
    if (table == nullptr || model == nullptr) continue;
    const auto note = redis_->note(loaded_note(name));
    if (note && *note != kRefilling) continue;
    log_warn(cat("redis has lost the rows of ", name, "; filling it from ",
                 table->l3() != nullptr ? "the database on disk" : fill.folder));
    redis_->set_note(loaded_note(name), kRefilling);
    table->refill_l2([&](KvTable& l2) {
      if (table->l3() != nullptr)
        copy(*table->l3(), l2);
      else
        copy(SparseFolder(fill.folder, table->dim()), l2);
    });
    redis_->set_note(loaded_note(name), fill.tag);
    if (rocksdb_ == nullptr) settle_sequence(*model, true, fill.updates_included);
  }
}

void ParameterServer::start_kafka() {
  char host[256] = "localhost";
  gethostname(host, sizeof(host) - 1);
  const bool shared = redis_ != nullptr && rocksdb_ == nullptr;
  const bool lasting = shared || (rocksdb_ != nullptr && !config_.persistent_db.read_only);
  KafkaUpdates::Settings settings{
      .source = config_.update_source,
      .key_bytes = config_.key_bytes(),
      .group = shared ? "hps.volatile" : cat(lasting ? "hps.persistent." : "hps.volatile.", host),
      .sharing = shared ? KafkaUpdates::Sharing::kGroup : KafkaUpdates::Sharing::kAlone,
      .from_the_beginning = !lasting};
  kafka_ = std::make_unique<KafkaUpdates>(
      std::move(settings),
      [this](const std::string& topic, std::span<const int64_t> keys, std::span<const float> rows,
             int64_t dim, int64_t created) { apply_update(topic, keys, rows, dim, created); });
}

// ---- loading ----

struct ParameterServer::Loading {
  ServedModel& model;
  bool shares_tables;  // with a version that is in use
  int64_t updates_included;
  std::shared_ptr<MemoryStore> memory;  // null: L2 is Redis or none
  std::mutex mutex{};                   // tables are loaded side by side
  ServedModel::Tables tables{};
  std::map<std::string, RedisFill> redis_fills{};
};

std::shared_ptr<ServedModel> ParameterServer::load_model(const std::string& name, int64_t version,
                                                         std::span<const TableSource> tables,
                                                         int64_t updates_included) {
  std::lock_guard one_at_a_time(loading_);
  const auto model = std::make_shared<ServedModel>(name, version);
  Loading loading{*model, is_in_use(name), updates_included, nullptr};
  if (config_.volatile_db.type == PsVolatile::Type::kHashMap) {
    loading.memory = std::make_shared<MemoryStore>(
        MemorySettings{config_.volatile_db.num_partitions, config_.volatile_db.overflow});
  }
  std::atomic<bool> filled{false};
  ThreadPool threads(std::clamp(static_cast<int>(tables.size()), 1, available_cpus()));
  const Context context{.threads = &threads};
  parallel_for(context, static_cast<int64_t>(tables.size()), 1, [&](int64_t i, int64_t) {
    if (load_table(loading, tables[static_cast<size_t>(i)])) filled = true;
  });
  model->set_tables(std::move(loading.tables));
  settle_sequence(*model, filled, updates_included);
  {
    std::lock_guard lock(mutex_);
    models_[{name, version}] = model;
    std::erase_if(redis_fills_, [](const auto& at) { return at.second.model.expired(); });
    for (auto& [table, fill] : loading.redis_fills) {
      fill.model = model;
      redis_fills_[table] = std::move(fill);
    }
    std::erase_if(alive_, [](const auto& at) { return at.expired(); });
    alive_.push_back(model);
  }
  models_changed();
  return model;
}

std::shared_ptr<ServedModel> ParameterServer::load_model(const std::string& name, int64_t version) {
  for (const PsModel& model : config_.models) {
    if (model.name != name) continue;
    std::vector<TableSource> tables;
    for (const PsModel::Table& table : model.tables) {
      tables.push_back({.name = table.name,
                        .folder = table.folder,
                        .dim = table.dim,
                        .missing = {Initializer::Kind::kConstant, table.default_value, 0.0f}});
    }
    return load_model(name, version, tables);
  }
  throw Error(ErrorCode::kNotFound, cat("ps.json describes no model ", name));
}

// Returns whether the database that outlives this process had to be filled.
bool ParameterServer::load_table(Loading& loading, const TableSource& source) {
  const std::string name = served_table_name(loading.model.name(), source.name);
  const SparseFolder folder(source.folder, source.dim);
  const std::string tag = cat("version ", loading.model.version(), " ", folder.fingerprint());
  bool filled = false;
  std::shared_ptr<KvTable> l3, l2;
  if (rocksdb_ != nullptr) {
    const bool kept = config_.persistent_db.read_only || rocksdb_->note(loaded_note(name)) == tag;
    if (!kept && !loading.shares_tables) rocksdb_->drop(name);  // rows of another version
    l3 = rocksdb_->open(name, source.dim);
    if (!kept) {
      rocksdb_->set_note(loaded_note(name), "incomplete");
      copy(folder, *l3);
      rocksdb_->set_note(loaded_note(name), tag);
      filled = true;
    }
  }
  const auto fill = [&](KvTable& table) {
    // What L3 has kept is newer than the files.
    if (l3 != nullptr && !filled)
      copy(*l3, table);
    else
      copy(folder, table);
  };
  if (loading.memory != nullptr) {
    l2 = loading.memory->open(name, source.dim);
    fill(*l2);
  } else if (redis_ != nullptr) {
    l2 = redis_->open(name, source.dim);
    const auto note = redis_->note(loaded_note(name));
    if (filled || note != tag) {
      // Where another version has all its rows there, it can be read meanwhile.
      const bool whole = note && *note != kRefilling;
      redis_->set_note(loaded_note(name), whole ? "incomplete" : kRefilling);
      fill(*l2);
      redis_->set_note(loaded_note(name), tag);
      filled = filled || rocksdb_ == nullptr;
    }
    l2->require_note(loaded_note(name), kRefilling);
  }
  std::lock_guard lock(loading.mutex);  // libstdc++'s regular expressions are not made side by side
  ServedTableSettings settings{
      .name = name,
      .dim = source.dim,
      .missing = source.missing,
      .seed = source.seed,
      .cache_missed = config_.volatile_db.cache_missed_embeddings,
      .update_l2 = passes_update_filters(config_.volatile_db.update_filters, name),
      .update_l3 = !config_.persistent_db.read_only &&
                   passes_update_filters(config_.persistent_db.update_filters, name)};
  const auto table = std::make_shared<ServedTable>(std::move(settings), l2, l3, &promotions_);
  if (redis_ != nullptr)
    loading.redis_fills[name] = {.table = table,
                                 .folder = source.folder,
                                 .tag = tag,
                                 .updates_included = loading.updates_included};
  EMBLEM_REQUIRE(loading.tables.emplace(source.name, table).second, "model ", loading.model.name(),
                 ": table ", source.name, " is there twice");
  return filled;
}

bool ParameterServer::is_in_use(const std::string& model) const {
  std::lock_guard lock(mutex_);
  return std::any_of(alive_.begin(), alive_.end(), [&](const auto& at) {
    const auto alive = at.lock();
    return alive != nullptr && alive->name() == model;
  });
}

// The database whose content says how far updates got, if any outlives this process.
KvStore* ParameterServer::authority() const {
  if (rocksdb_ != nullptr) return config_.persistent_db.read_only ? nullptr : rocksdb_.get();
  return redis_.get();
}

void ParameterServer::settle_sequence(ServedModel& model, bool filled, int64_t updates_included) {
  int64_t sequence = updates_included;
  if (KvStore* store = authority()) {
    const std::string note = sequence_note(model.name());
    if (filled) {
      store->set_note(note, std::to_string(sequence));
    } else if (const auto kept = store->note(note)) {
      sequence = std::max(sequence, static_cast<int64_t>(std::atoll(kept->c_str())));
    }
  }
  model.set_sequence(sequence);
}

// ---- who is there ----

void ParameterServer::unload_model(const std::string& name, int64_t version) {
  std::shared_ptr<DeltaWatcher> watcher;  // is joined outside the lock, which it may want
  {
    std::lock_guard lock(mutex_);
    models_.erase({name, version});
    const auto next = models_.lower_bound({name, INT64_MIN});
    const bool last = next == models_.end() || next->first.first != name;
    if (const auto found = watchers_.find(name); last && found != watchers_.end()) {
      watcher = std::move(found->second);
      watchers_.erase(found);
    }
  }
  models_changed();
}

std::shared_ptr<ServedModel> ParameterServer::find(const std::string& name, int64_t version) const {
  std::lock_guard lock(mutex_);
  const auto found = models_.find({name, version});
  return found == models_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<ServedModel>> ParameterServer::models() const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<ServedModel>> models;
  for (const auto& [key, model] : models_) models.push_back(model);
  return models;
}

std::vector<std::shared_ptr<ServedModel>> ParameterServer::versions(const std::string& name) const {
  auto all = models();
  std::erase_if(all, [&](const auto& model) { return model->name() != name; });
  return all;
}

void ParameterServer::refresh(const std::string& name) const {
  for (const auto& model : versions(name)) {
    for (const auto& [table, served] : model->tables()) served->refresh();
  }
}

void ParameterServer::refresh_caches(const std::string& name) const {
  for (const auto& model : versions(name)) {
    for (const auto& [table, served] : model->tables()) served->refresh_caches();
  }
}

// ---- updates ----

void ParameterServer::watch_deltas(const std::string& model, const std::string& folder,
                                   std::chrono::milliseconds every) {
  auto watcher = std::make_shared<DeltaWatcher>(
      folder, every, [this, model] { return versions(model); },
      [this](const ServedModel& of, int64_t sequence) {
        KvStore* store = authority();
        if (store != nullptr) store->set_note(sequence_note(of.name()), std::to_string(sequence));
      });
  {
    std::lock_guard lock(mutex_);
    watcher.swap(watchers_[model]);
  }  // the one before, if any, is joined outside the lock, which it may want
}

void ParameterServer::look_for_deltas(const std::string& model) {
  std::shared_ptr<DeltaWatcher> watcher;
  {
    std::lock_guard lock(mutex_);
    const auto found = watchers_.find(model);
    if (found != watchers_.end()) watcher = found->second;
  }
  if (watcher != nullptr) watcher->look();
}

KafkaUpdates::Counts ParameterServer::kafka_counts() const {
  return kafka_ != nullptr ? kafka_->counts() : KafkaUpdates::Counts{};
}

void ParameterServer::apply_update(const std::string& topic, std::span<const int64_t> keys,
                                   std::span<const float> rows, int64_t dim,
                                   int64_t created_unix_ms) const {
  for (const auto& model : models()) {
    for (const auto& [name, table] : model->tables()) {
      if (table->settings().name != topic) continue;
      EMBLEM_REQUIRE(table->dim() == dim, "table ", topic, " has rows of dimension ", table->dim(),
                     ", but an update's have ", dim);
      try {
        table->apply(keys, rows);
      } catch (const Error&) {
        model->note_error();
        throw;
      }
      model->note_update(created_unix_ms, keys.size());
    }
  }
}

void ParameterServer::models_changed() {
  if (kafka_ == nullptr) return;
  std::vector<std::string> topics;
  for (const auto& model : models()) {
    for (const auto& [name, table] : model->tables()) {
      const ServedTableSettings& settings = table->settings();
      if (settings.update_l2 || settings.update_l3) topics.push_back(settings.name);
    }
  }
  std::sort(topics.begin(), topics.end());
  topics.erase(std::unique(topics.begin(), topics.end()), topics.end());
  kafka_->set_topics(std::move(topics));
}

}  // namespace emblem
