// remote/folder_mirror.h - a folder of a remote store and its copy on this machine: model
// directories, model repositories.
//
// Folders with a manifest.json (checkpoints, deltas, versions of models) are units: whole or
// absent, here and there. Their manifest is the last object that is uploaded and the first that is
// removed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "data/source/remote_storage.h"

namespace emblem {

// Used by one thread at a time. Several processes may pull into the same local folder; only one may
// push.
class FolderMirror {
 public:
  // Files outside of units are copied where they are at most `depth` names deep: 1 for
  // "train_log.jsonl", 2 for "ctr/config.pbtxt". Makes the local folder.
  FolderMirror(RemoteStorage& storage, std::string uri, std::string local, int depth);

  const std::string& uri() const { return uri_; }
  const std::string& local() const { return local_; }

  // The units of the remote folder, by name ("model.ckpt-100", "ctr/1"), as the last pull or look
  // has seen them.
  const std::set<std::string>& units() const { return units_; }
  void look();

  // Makes the copy what the remote folder is; of units only those that `wants` names are fetched.
  // What is not there any more is removed.
  void pull(const std::function<bool(const std::string& unit)>& wants);

  // Makes the remote folder what the copy is. Units that pull() did not want stay.
  void push();
  // Removes a unit of the remote folder.
  void remove(const std::string& unit);

 private:
  struct Stamp {  // of a local file
    int64_t bytes = 0;
    int64_t changed = 0;  // nanoseconds
    bool operator==(const Stamp&) const = default;
  };
  struct LocalFile {
    std::string name;  // within the folder
    Stamp stamp;
  };

  std::string unit_of(const std::string& name, const std::set<std::string>& units) const;
  bool is_loose(const std::string& name) const;
  std::vector<LocalFile> local_files() const;
  bool is_current(const std::string& unit, const std::string& fingerprint);
  void fetch_unit(const std::string& unit, const std::vector<ObjectInfo>& objects,
                  const std::string& fingerprint);
  void fetch_loose(const std::vector<ObjectInfo>& objects);
  void remove_what_is_gone();
  void upload(const std::vector<LocalFile>& files);
  std::string remote(const std::string& name) const { return join_uri(uri_, name); }

  RemoteStorage& storage_;
  std::string uri_, local_;
  int depth_;
  std::set<std::string> units_;
  std::map<std::string, std::vector<ObjectInfo>> objects_;  // by unit; "": outside of units
  std::map<std::string, std::string> fetched_;              // by unit: its fingerprint
  std::map<std::string, Stamp> same_;  // by name: local files that are remote, too
};

// Downloads objects to files, by parallel ranges. Throws Error when one changes meanwhile.
struct FileDownload {
  ObjectInfo object;
  std::string path;
};
void download_files(RemoteStorage& storage, const std::vector<FileDownload>& files);

// Where a process keeps the copy of a remote folder: in the cache folder, for this `use` of it.
std::string mirror_folder(RemoteStorage& storage, const std::string& uri, const std::string& use);

}  // namespace emblem
