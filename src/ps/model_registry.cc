#include "ps/model_registry.h"

#include <algorithm>

namespace emblem {

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

}  // namespace emblem
