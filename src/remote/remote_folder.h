// remote/remote_folder.h - a folder of a remote store as a set of units and loose files.
//
// Folders with a manifest.json (checkpoints, deltas, versions of models) are units: whole or
// absent. Their manifest is the last object that is written and the first that is removed.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "data/source/remote_storage.h"

namespace emblem {

inline constexpr const char* kUnitManifest = "manifest.json";

// Used by one thread at a time.
class RemoteFolder {
 public:
  // Files outside of units belong to the folder where they are at most `depth` names deep: 1 for
  // "train_log.jsonl", 2 for "ctr/config.pbtxt". Sends no request.
  RemoteFolder(RemoteStorage& storage, const std::string& uri, int depth);

  RemoteStorage& storage() const { return storage_; }
  const std::string& uri() const { return uri_; }
  int depth() const { return depth_; }
  std::string address(const std::string& name) const {
    return name.empty() ? uri_ : join_uri(uri_, name);
  }

  // Lists the folder. Objects whose names are not paths within a folder are skipped with a warning.
  void look();

  // As the last look() has seen them: the objects of units, by name ("model.ckpt-100", "ctr/1").
  const std::map<std::string, std::vector<ObjectInfo>>& units() const { return units_; }
  bool has(const std::string& unit) const { return units_.contains(unit); }
  // Files outside of units, by name.
  const std::map<std::string, ObjectInfo>& loose() const { return loose_; }
  // Whether the last look() has seen this object, of whatever kind.
  bool has_object(const std::string& name) const { return names_.contains(name); }
  // The name of an object within the folder.
  std::string name_of(const ObjectInfo& object) const { return object.uri.substr(uri_.size() + 1); }

  // Lists one unit again; it is gone where it has no manifest. Returns the sizes of all objects
  // below it, by name within the unit.
  std::map<std::string, int64_t> look_at(const std::string& unit);
  // Removes a unit, its manifest first.
  void remove(const std::string& unit, const BeforeWrite& before);
  // Removes the manifest alone, and makes sure that it is gone: what follows is not for readers.
  void remove_manifest(const std::string& unit, const BeforeWrite& before);

  bool is_loose(const std::string& name) const;

 private:
  RemoteStorage& storage_;
  std::string uri_;
  int depth_;
  std::map<std::string, std::vector<ObjectInfo>> units_;
  std::map<std::string, ObjectInfo> loose_;
  std::set<std::string> names_;
};

// The unit of `units` that the file `name` is in; "" if there is none.
std::string unit_of(const std::string& name, const std::set<std::string>& units);

// Changes whenever one of the objects is written. Listings of S3 have whole seconds and no etag:
// the store is asked for that of the manifest, or of a single object.
std::string fingerprint_of(RemoteStorage& storage, const std::vector<ObjectInfo>& objects);

// Short and unique, for names of files.
std::string hash_of(const std::string& text);

}  // namespace emblem
