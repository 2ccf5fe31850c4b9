// embedding/files/table_files.h - a table as a folder of files.
//
//   key         int64 x rows, ascending          } the layout that HPS reads
//   emb_vector  float32 x rows x dim             }
//   state       float32 x rows x state_floats    when the optimizer keeps state
//   score       int64 x rows                     dynamic tables
//   admission   (int64 key, int64 count) pairs   when keys wait for admission
//   table.json  dim, optimizer, rows, clock, ... the other content
//
// All little-endian, without headers. fp16 and bf16 weights are stored as fp32.
//
// A table that several ranks have saved is a folder of such folders, 00000, 00001, ...: runs, each
// with the rows of one rank (embedding/files/table_runs.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "embedding/table.h"

namespace emblem {

struct WrittenFile {
  std::string name;  // within the folder
  uint64_t bytes = 0;
  uint64_t checksum = 0;  // core/math/checksum.h
};

// Writes into `folder`, which is created if needed. Files are synced, the folder is not. Throws
// kInternal when a weight is NaN or infinite.
std::vector<WrittenFile> save_table(const Context& context, const Table& table,
                                    const std::string& folder);

// Calls its second argument with all rows, keys ascending, in batches of at most the first.
using ExportRows = std::function<void(int64_t, const std::function<void(const RowBatch&)>&)>;
// For a slice of columns: `rows` gives whole rows.
std::vector<WrittenFile> save_table(const Table& table, const ExportRows& rows,
                                    const std::string& folder);
// Rows in a batch of save_table: the same for all slices of a table.
int64_t rows_per_batch(const Table& table);

// The content of table.json.
struct TableFacts {
  std::string name;
  int64_t dim = 0;
  std::string dtype;  // type of the table that was saved
  std::string kind;   // "static" or "dynamic"
  std::string optimizer;
  int64_t state_floats = 0;
  int64_t rows = 0;
  std::string eviction;
  int64_t clock = 0;
  int64_t next_score = 0;
};
TableFacts read_table_facts(const std::string& folder);

// kContinue needs the same optimizer and loads everything. kWeightsOnly loads keys and weights, and
// gives the rows new state and score 0: for fine-tuning, evaluation, or folders without table.json.
enum class LoadMode { kContinue, kWeightsOnly };

// The files of a saved table, which a table is about to load.
class TableFiles {
 public:
  // Throws when a file is missing, has another size than the rows need, or belongs to a table of
  // another dim, or (kContinue) another kind, size or optimizer; when a key is outside of a static
  // table, is a duplicate in a run (kContinue), or more of them are held than the capacity of a
  // table that does not evict in bins; when a score or a count is none.
  TableFiles(const std::string& folder, LoadMode mode, const Table& table);
  ~TableFiles();

  // Replaces the content of `table`, the same, by the rows of its parts (TableSettings::held).
  // Throws where memory ends, or runs have a key in common, with some of the rows loaded.
  void load(const Context& context, Table& table) const;

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

// Both: where TableFiles refuses the files, `table` is as it was.
void load_table(const Context& context, const std::string& folder, LoadMode mode, Table& table);

}  // namespace emblem
