// train/state/saved_tables.h - the tables of a checkpoint, of which every rank writes the rows it
// has.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "checkpoint/file_facts.h"
#include "train/learner/learner.h"

namespace emblem {

// What was written of a table: rows, and files by their names within the checkpoint.
struct SavedTable {
  int64_t rows = 0;
  std::vector<std::pair<std::string, FileFacts>> files;
};

// Writes the learner's tables into the folder of a checkpoint: tables/NAME/..., or, of a table that
// several ranks have, tables/NAME/RUN/... with the rows of each. Several ranks call it together,
// with the folder of rank 0. Returns all that was written, by table; on other ranks than 0 what was
// written there. Throws where rank 0 does not see what another one wrote.
std::vector<SavedTable> save_tables(Learner& learner, const std::string& checkpoint);

std::string table_folder(const Table& table);

}  // namespace emblem
