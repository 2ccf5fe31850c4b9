#include "ps/parameter_server.h"

#include <algorithm>

namespace emblem {
namespace {

constexpr double kRedisWatchSeconds = 0.5;

}  // namespace

void ModelRegistry::add(std::shared_ptr<ServedModel> model) {
  std::lock_guard lock(mutex_);
  std::erase_if(alive_, [](const auto& at) { return at.expired(); });
  alive_.push_back(model);
  model.swap(models_[{model->name(), model->version()}]);
}  // the one before, if any, is freed after the lock is released

void ModelRegistry::remove(const std::string& name, int64_t version) {
  std::shared_ptr<ServedModel> removed;  // freed after the lock is released
  std::lock_guard lock(mutex_);
  const auto found = models_.find({name, version});
  if (found == models_.end()) return;
  removed = std::move(found->second);
  models_.erase(found);
}

std::shared_ptr<ServedModel> ModelRegistry::find(const std::string& name, int64_t version) const {
  std::lock_guard lock(mutex_);
  const auto found = models_.find({name, version});
  return found == models_.end() ? nullptr : found->second;
}

ModelRegistry::Models ModelRegistry::all() const {
  std::lock_guard lock(mutex_);
  Models models;
  for (const auto& [key, model] : models_) models.push_back(model);
  return models;
}

ModelRegistry::Models ModelRegistry::versions(const std::string& name) const {
  Models models = all();
  std::erase_if(models, [&](const auto& model) { return model->name() != name; });
  return models;
}

bool ModelRegistry::is_in_use(const std::string& name) const {
  std::lock_guard lock(mutex_);
  return std::any_of(alive_.begin(), alive_.end(), [&](const auto& at) {
    const auto model = at.lock();
    return model != nullptr && model->name() == name;
  });
}

ParameterServer::ParameterServer(PsConfig config)
    : config_(std::move(config)),
      databases_(config_),
      redis_filler_(databases_.redis != nullptr ? std::make_unique<RedisFiller>(databases_)
                                                : nullptr),
      redis_guard_(redis_filler_ != nullptr
                       ? std::make_unique<RedisGuard>(*databases_.redis, *redis_filler_)
                       : nullptr),
      loader_(config_, databases_, redis_filler_.get(), redis_guard_.get(), promotions_),
      applier_(databases_),
      intake_(
          std::make_unique<UpdateIntake>(config_, databases_, [this] { return models_.all(); })) {
  start_refresher();
  if (redis_filler_ != nullptr) watch_redis();
}

ParameterServer::~ParameterServer() {
  redis_watch_.reset();
  refresher_.reset();
  intake_.reset();  // they write into tables
  watchers_.clear();
}

void ParameterServer::start_refresher() {
  std::vector<PeriodicTask::Plan> plans;
  for (const PsModel& model : config_.models) {
    if (model.refresh_interval_s > 0)
      plans.push_back({model.name, model.refresh_delay_s, model.refresh_interval_s});
  }
  if (plans.empty()) return;
  refresher_ =
      std::make_unique<PeriodicTask>("refreshing the cache", std::move(plans),
                                     [this](const std::string& model) { refresh_caches(model); });
}

void ParameterServer::watch_redis() {
  const PeriodicTask::Plan plan{databases_.redis->describe(), kRedisWatchSeconds,
                                kRedisWatchSeconds};
  redis_watch_ =
      std::make_unique<PeriodicTask>("filling", std::vector{plan}, [this](const std::string&) {
        try {
          redis_guard_->look();
        } catch (const Error& error) {
          // Requests say that it is out of reach.
          if (error.code() != ErrorCode::kUnavailable) throw;
        }
      });
}

// ---- models ----

std::shared_ptr<ServedModel> ParameterServer::load_model(const std::string& name, int64_t version,
                                                         std::span<const TableSource> tables,
                                                         int64_t updates_included) {
  std::lock_guard one_at_a_time(loading_);
  const auto model = std::make_shared<ServedModel>(name, version);
  loader_.load(model, tables, updates_included,
               models_.is_in_use(name) ? TierLoader::Tables::kShared : TierLoader::Tables::kOwn);
  models_.add(model);
  intake_->follow_models();
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

void ParameterServer::unload_model(const std::string& name, int64_t version) {
  models_.remove(name, version);
  intake_->follow_models();
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

// ---- deltas ----

void ParameterServer::watch_deltas(const std::string& model, const std::string& folder,
                                   std::chrono::milliseconds every) {
  auto watcher = std::make_shared<DeltaWatcher>(
      folder, every, [this, model] { return versions(model); }, applier_);
  std::lock_guard lock(watchers_mutex_);
  watcher.swap(watchers_[model]);
}  // the one before, if any, is joined after the lock is released

void ParameterServer::look_for_deltas(const std::string& model) {
  std::shared_ptr<DeltaWatcher> watcher;
  {
    std::lock_guard lock(watchers_mutex_);
    const auto found = watchers_.find(model);
    if (found != watchers_.end()) watcher = found->second;
  }
  if (watcher != nullptr) watcher->look();
}

}  // namespace emblem
