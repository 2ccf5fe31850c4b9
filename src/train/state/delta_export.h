// train/state/delta_export.h - the rows that training changes, for servers that follow it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/proto/train.pb.h"
#include "core/device/context.h"
#include "embedding/files/delta_files.h"
#include "embedding/table.h"
#include "train/run/world.h"

namespace emblem {

// Writes deltas (embedding/files/delta_files.h) into a folder, each with the rows that were touched
// since the one before. Used by one thread.
class DeltaExport {
 public:
  // Servers are taken to have what the tables hold now. Numbers continue after those in the folder
  // and after `last`. The tables must outlive this.
  DeltaExport(std::string folder, std::vector<Table*> tables, int64_t last,
              const World& world = World::alone());

  // Returns the delta's number. Several ranks call it together: rank 0 writes the rows of all.
  int64_t write(const Context& context, const DeltaOrigin& origin = {});
  int64_t last() const { return last_; }

  // Removes deltas that no version exported from a kept checkpoint needs, as keep_delta_max says;
  // to be called when a checkpoint was written. What cannot be removed is logged.
  void remove_old(const std::string& model_dir, const config::TrainConfig& config) const;

 private:
  std::string folder_;
  std::vector<Table*> tables_;
  const World world_;
  std::vector<int64_t> versions_;  // versions of the tables at the last delta
  int64_t last_;
};

}  // namespace emblem
