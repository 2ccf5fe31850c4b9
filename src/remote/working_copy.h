// remote/working_copy.h - the copy of a remote folder that one process changes: a model directory
// of a training.
//
// Guarantees:
// - One process at a time works on a copy (a lock on this machine) and on a remote folder (a lock
//   in the store, remote/store_lock.h). Both are held before anything is read or changed.
// - Nothing is removed here that did not reach the store, or that it lost. What is here and not in
//   the store, of this process or of an earlier one that ended in whatever way, is pending until
//   the store has it whole: names, sizes and manifest are compared.
// - Readers of the store see units whole or not at all: a manifest is uploaded last and removed
//   first. A unit there is not replaced by another one of the same name, unless it came from this
//   copy or was fetched into it: then the one here is set aside, in .kept.
// - Uploads read snapshots: the owner of the files may remove and replace them meanwhile.
// - A failed request leaves all this true; the next call continues.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "data/source/file_lock.h"
#include "emblem/error.h"
#include "remote/download.h"
#include "remote/remote_folder.h"
#include "remote/store_lock.h"
#include "remote/unit_snapshot.h"
#include "remote/upload_journal.h"

namespace emblem {

// Used by one thread at a time.
class WorkingCopy {
 public:
  // Takes the locks and lists the remote folder. `depth`: see RemoteFolder. Throws kUnavailable
  // that names the other process where there is one.
  WorkingCopy(RemoteStorage& storage, const std::string& uri, int depth,
              const StoreLockOptions& lock = store_lock_options());
  ~WorkingCopy();
  WorkingCopy(const WorkingCopy&) = delete;
  WorkingCopy& operator=(const WorkingCopy&) = delete;

  const std::string& local() const { return local_; }
  const std::string& uri() const { return remote_.uri(); }
  // As the last request has seen it.
  const RemoteFolder& remote() const { return remote_; }
  // Lists the remote folder again.
  void look();

  // What has a manifest here.
  std::set<std::string> local_units() const;
  // Units that the store does not have as they are here.
  std::vector<std::string> pending_units() const;
  std::vector<std::string> pending_files() const;  // outside of units
  bool has_pending() const;
  // Whether the unit came from here, or was fetched.
  bool knows(const std::string& unit) const { return journal_.knows(unit); }

  // Compares pending units with the store: those that it has are not pending any more, those of
  // which it has another version are set aside. Returns the names of these.
  std::vector<std::string> compare();
  // Removes those units and files here, of which the store had a copy and has none any more,
  // that have a successor there, and sets the others aside: the store may have lost them.
  void remove_what_is_gone(const std::function<bool(const std::string& name)>& has_successor);
  // Fetches a unit, unless it is here as it is there. `check`: see FetchCheck.
  void fetch(const std::string& unit, const FetchCheck& check = nullptr);
  // Fetches files outside of units, except pending ones.
  void fetch_files();
  // Moves a unit or file out of the way of the one in the store. Returns where it is.
  std::string set_aside(const std::string& name);

  // Uploads a unit. Does nothing when it was removed here meanwhile.
  void upload(const std::string& unit);
  // Uploads files outside of units; removes those of the store that were removed here.
  void upload_loose_files();
  // Removes a unit of the store.
  void remove(const std::string& unit);

 private:
  std::string version_here(const std::string& unit) const;
  std::string version_there(const std::string& unit) const;
  bool has_sizes_of_store(const std::string& unit) const;
  void require_gone(const std::string& unit) const;
  bool is_there(const UnitSnapshot& snapshot, const std::map<std::string, int64_t>& sizes) const;
  void require_there(const std::string& unit, const UnitSnapshot& snapshot,
                     const std::map<std::string, int64_t>& sizes) const;
  Error not_what_was_uploaded(const std::string& name) const;
  void require_sent(const std::string& name, const std::string& file) const;
  void upload_contents(const std::string& unit, const UnitSnapshot& snapshot,
                       const std::map<std::string, int64_t>& sizes);
  void upload_manifest(const std::string& unit, const UnitSnapshot& snapshot);
  void send(const std::vector<SnapshotFile>& files, const std::string& from,
            const std::string& unit);
  void clean_up();

  std::string local_;
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<StoreLock> store_lock_;
  RemoteFolder remote_;
  UploadJournal journal_;
};

}  // namespace emblem
