// checkpoint/checkpoint.h - checkpoints as directories MODEL_DIR/model.ckpt-STEP that exist whole
// or not at all.
//
//   manifest.json      what the checkpoint is, with size and checksum of every other file
//   pipeline.config    the configuration of the run
//   dense.safetensors  parameters of the network and their optimizer state
//   tables/NAME/...    one folder per table
//
// Only manifest.json is written here; the writers of other files register them. A model dir has one
// writer at a time (checkpoint/model_dir_lock.h); any number of processes may read.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/manifest.h"
#include "data/source/storage.h"

namespace emblem {

// MODEL_DIR/model.ckpt-STEP
std::string checkpoint_path(const std::string& model_dir, int64_t step);

// Collects files under a hidden name and gives them their own with commit. Without commit (an
// exception, a full disk) the destructor removes them; what a killed process left, the next writer
// removes.
class CheckpointWriter {
 public:
  CheckpointWriter(const std::string& model_dir, int64_t step);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Where files go until commit.
  const std::string& path() const { return path_; }

  // Registers a file, written and synced, at path()/name ("tables/user/key").
  void add_file(const std::string& name, FileFacts facts);
  // Writes path()/name and registers it.
  void write_file(const std::string& name, std::string_view content);

  // Writes the manifest, with step and files filled in, and makes the checkpoint appear atomically,
  // in the place of an older one of the same step. Returns its path.
  std::string commit(Manifest manifest);

 private:
  std::string model_dir_;
  int64_t step_;
  std::string path_;
  std::map<std::string, FileFacts> files_;
};

// Rewrites the manifest of a finished checkpoint atomically after `change`, which leaves step and
// files as they are.
void update_manifest(const std::string& checkpoint, const std::function<void(Manifest&)>& change);

struct CheckpointEntry {
  int64_t step;
  std::string path;
};

// All folders named as checkpoints, by step; whether they are intact is not checked.
std::vector<CheckpointEntry> list_checkpoints(const std::string& model_dir);

// Whether there is a checkpoint, intact or not, finished or replaced (checkpoint/names.h).
bool holds_checkpoints(const std::string& model_dir);

// The checkpoint of the highest step that has a valid manifest; nothing when there is none. kWarn
// logs a warning for each newer one that is skipped because its manifest is damaged.
enum class Skipped { kWarn, kIgnore };
std::optional<std::string> latest_checkpoint(const std::string& model_dir,
                                             Skipped skipped = Skipped::kWarn);

// `path` when it is a checkpoint, the latest one in it when it is a model dir. One in a remote
// store is fetched first, through `storage`. Throws Error otherwise.
std::string find_checkpoint(const std::string& path, const Storage& storage = nullptr);

Manifest read_manifest(const std::string& checkpoint);

struct Checkpoint {
  std::string path;
  Manifest manifest;

  // Throws Error for names that lead out of the checkpoint (core/files/inner_path.h).
  std::string file(const std::string& name) const;
};

// kSizes looks whether all files are there with the right size; kContents reads them all and
// compares checksums.
enum class Verify { kSizes, kContents };
// kWithoutTables: the files of tables need not be there, and are not verified.
enum class CheckpointFiles { kAll, kWithoutTables };

// find_checkpoint, then reads the manifest and verifies the files. Throws Error that says which
// file is missing, truncated or changed.
Checkpoint open_checkpoint(const std::string& path, Verify verify = Verify::kContents,
                           CheckpointFiles files = CheckpointFiles::kAll);

// Removes all checkpoints but the `keep` (0: all) of the highest steps and those of `spared`.
void prune_checkpoints(const std::string& model_dir, int64_t keep, std::span<const int64_t> spared);

// No reader ever sees half of it.
void remove_checkpoint(const std::string& model_dir, int64_t step);

// Removes what killed processes left in a model dir: unfinished checkpoints and files.
// A replaced checkpoint gets its name back where its successor never got it.
void remove_leftovers(const std::string& model_dir);

}  // namespace emblem
