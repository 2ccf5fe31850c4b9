// store/partitioned_table.h - a table in a shared store whose partitions can be lost one by one: a
// server of a cluster is replaced, or memory is short and the store evicts.
//
// Each partition has a mark: the generation of its last filling (store/table_note.h) and the number
// of its rows, which all changes keep up to date. Every lookup compares the generation; the number
// is compared by lost_parts(), and by lookups when more keys are missing than usual.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "store/kv_store.h"

namespace emblem {

class PartitionedTable : public KvTable {
 public:
  using KvTable::KvTable;

  // Partitions that do not have the mark of this generation, or have fewer rows than it says.
  virtual std::vector<size_t> lost_parts(const std::string& generation) const = 0;

  // Before all rows of these partitions are written by bulk_insert: removes damaged rows. Lookups
  // do not read the partitions until finish_filling.
  virtual void start_filling(std::span<const size_t> parts, const std::string& generation) = 0;
  // Marks them. Those that lost rows meanwhile stay lost.
  virtual void finish_filling(std::span<const size_t> parts, const std::string& generation) = 0;
  // Marks all partitions as they are, unless they have a mark.
  virtual void adopt(const std::string& generation) = 0;

  // Rows that lookups found damaged: of another size, without their checksum, NaN or infinite.
  virtual uint64_t damaged() const = 0;
};

}  // namespace emblem
