// checkpoint/remote_model_dir.h - model directories and checkpoints in remote stores: a copy on
// this machine is worked on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "data/source/storage.h"

namespace emblem {

// `checkpoint` is the address of a checkpoint, or of a model directory: its latest one is fetched
// into the cache folder. Returns the path of the copy, which no process removes or changes while
// `storage` is there.
std::string fetch_checkpoint(const std::string& checkpoint, RemoteStorage& storage);

// Whether there is a checkpoint at this address, or in the folder there.
bool holds_remote_checkpoints(const std::string& address, RemoteStorage& storage);

// A model directory of a training (remote/working_copy.h). Training writes into the copy; what it
// wrote is uploaded beside it, by a thread. Of checkpoints that are saved faster than they are
// uploaded the older ones are skipped where the copy has removed them: the newest one always
// reaches the store. A store that cannot be reached does not delay training.
class RemoteModelDir {
 public:
  enum class Existing { kFetchLatest, kOnlyNames };

  // Takes the locks, uploads what earlier runs on this machine could not upload, and then:
  // kFetchLatest: to resume; fetches the newest checkpoint, unless that is here. kOnlyNames: a new
  // run, which is refused where there are checkpoints already. `keep`: as keep_checkpoint_max.
  RemoteModelDir(const std::string& uri, Existing existing, int64_t keep, const Storage& storage);
  // Uploads nothing more; what was not uploaded stays here for the next run.
  ~RemoteModelDir();

  const std::string& local() const;
  // The address of what has this path in the copy.
  std::string address_of(const std::string& path) const;

  // Returns at once: everything that is new is uploaded, and what is gone removed, beside the
  // caller. A failure is a warning; it is tried again.
  void publish();
  // The same for the last time, and waits for it. Throws Error that names the local folder.
  void finish();
  // The same after an error, where a second one is a warning.
  void try_to_finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace emblem
