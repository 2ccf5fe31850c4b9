// train/delta_export.h - the rows that training changes, for servers that follow it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/context.h"
#include "embedding/table.h"

namespace emblem {

// Writes deltas (embedding/files/delta_files.h) into a folder, each with the rows that were touched
// since the one before. Used by one thread.
class DeltaExport {
 public:
  // Servers are taken to have what the tables hold now. Numbers continue after those in the folder
  // and after `last`. The tables must outlive this.
  DeltaExport(std::string folder, std::vector<Table*> tables, int64_t last);

  // Returns the delta's number.
  int64_t write(const Context& context);
  int64_t last() const { return last_; }

 private:
  std::string folder_;
  std::vector<Table*> tables_;
  std::vector<int64_t> versions_;  // of the tables at the last delta
  int64_t last_;
};

}  // namespace emblem
