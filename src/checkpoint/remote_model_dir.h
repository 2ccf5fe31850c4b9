// checkpoint/remote_model_dir.h - model directories and checkpoints in remote stores: a copy on
// this machine is worked on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "config/pipeline.pb.h"

namespace emblem {

// `checkpoint` is the address of a checkpoint, or of a model directory: its latest one is fetched
// into the cache folder. Returns the path of the copy.
std::string fetch_checkpoint(const std::string& checkpoint);

// Whether there is a checkpoint at this address, or in the folder there.
bool holds_remote_checkpoints(const std::string& address);

// A model directory of a training. Training writes into the copy; publish() brings what it wrote to
// the store: files first, manifests last, so that readers there see whole checkpoints only. Nothing
// keeps a training on another machine from writing to the same address.
class RemoteModelDir {
 public:
  enum class Existing { kFetchLatest, kOnlyNames };

  // kFetchLatest: to resume. kOnlyNames: a new run, which is refused where there are checkpoints
  // already.
  RemoteModelDir(const std::string& uri, Existing existing);
  ~RemoteModelDir();

  const std::string& local() const;
  // The address of what has this path in the copy.
  std::string address_of(const std::string& path) const;

  // Uploads what is new and removes what is gone; of older checkpoints, too, above `keep` (0: all
  // stay).
  void publish(int64_t keep);
  // The same while training continues: a store that cannot be reached is a warning, and the next
  // one tries again.
  void try_to_publish(int64_t keep);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace emblem
