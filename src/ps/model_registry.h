// ps/model_registry.h - the versions of models that are loaded.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ps/tables/served_model.h"

namespace emblem {

// Thread-safe.
class ModelRegistry {
 public:
  using Models = std::vector<std::shared_ptr<ServedModel>>;

  // Takes the place of one of the same name and version.
  void add(std::shared_ptr<ServedModel> model);
  // Those who hold it may continue to use it. No error when there is none.
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

}  // namespace emblem
