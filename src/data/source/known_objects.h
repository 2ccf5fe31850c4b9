// data/source/known_objects.h - what a process remembers of objects: the versions that it has seen,
// and the files that are open. Neither grows without a limit in a process that does not end.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/source/objects/object_store.h"

namespace emblem {

class ObjectFile;

// Not thread-safe.
class KnownObjects {
 public:
  explicit KnownObjects(size_t most = 1000000) : most_(most) {}

  // What a listing has found. When more than `most` objects are known, those of older listings than
  // the last 8 are forgotten.
  void add(const std::vector<ObjectInfo>& found);
  // One that was asked for by its name. Not remembered when `most` objects are known.
  void add_one(const ObjectInfo& info);
  // As the last listing that had it.
  std::optional<ObjectInfo> find(const std::string& uri) const;
  size_t size() const { return known_.size(); }

 private:
  struct Known {
    ObjectInfo info;
    int64_t listing = 0;
  };
  const size_t most_;
  int64_t listings_ = 0;
  std::map<std::string, Known> known_;  // by address
};

// Files by name, as long as they are held elsewhere. Not thread-safe.
class OpenObjects {
 public:
  template <class Make>
  std::shared_ptr<ObjectFile> find_or_make(const std::string& name, const Make& make) {
    std::weak_ptr<ObjectFile>& slot = files_[name];
    std::shared_ptr<ObjectFile> file = slot.lock();
    if (file == nullptr) slot = file = make();
    if (files_.size() > 2 * held_ + kLeast) forget_closed();
    return file;
  }
  size_t size() const { return files_.size(); }

 private:
  static constexpr size_t kLeast = 1000;
  void forget_closed() {
    std::erase_if(files_, [](const auto& file) { return file.second.expired(); });
    held_ = files_.size();
  }

  std::map<std::string, std::weak_ptr<ObjectFile>> files_;
  size_t held_ = 0;  // after files were forgotten
};

}  // namespace emblem
