// remote/folder_mirror.h - a folder of a remote store that a process reads: model repositories.
//
// The copy is the process's own: a folder in which units are links to copies that all processes
// share (remote/unit_copy.h). It is removed with the mirror; the shared copies stay in the cache.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "remote/remote_folder.h"
#include "remote/unit_copy.h"

namespace emblem {

// A unit or file that could not be fetched, and why.
struct FetchProblem {
  std::string name, reason;
};

// Used by one thread at a time.
class FolderMirror {
 public:
  // Makes the local folder, empty. `depth`: see RemoteFolder.
  FolderMirror(RemoteStorage& storage, const std::string& uri, int depth);
  ~FolderMirror();
  FolderMirror(const FolderMirror&) = delete;
  FolderMirror& operator=(const FolderMirror&) = delete;

  const std::string& uri() const { return folder_.uri(); }
  const std::string& local() const { return local_; }

  // Makes the copy what the remote folder is. Throws Error when that cannot be listed; the copy
  // stays as it was. Units and files that cannot be read are returned; copies that were fetched
  // before stay. What is gone is missing in two listings. What was replaced or removed
  // is held until the next pull: a reader that has begun with it can end.
  std::vector<FetchProblem> pull();

 private:
  void pull_unit(const std::string& unit);
  void pull_file(const std::string& name, const ObjectInfo& object);
  std::set<std::string> missing_names() const;
  void remove_what_is_gone(const std::set<std::string>& missing_before);
  void begin_again_if_removed();

  RemoteFolder folder_;
  std::string local_;
  std::unique_ptr<FileLock> lock_;
  std::map<std::string, UnitCopy> units_;
  std::vector<UnitCopy> retired_;
  std::map<std::string, std::string> files_;  // fingerprints, by name
};

}  // namespace emblem
