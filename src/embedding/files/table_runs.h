// embedding/files/table_runs.h - the runs that several ranks have saved of a table.
#pragma once

#include <string>
#include <vector>

#include "embedding/files/table_files.h"

namespace emblem {

// The folders with the files of a saved table: its runs, or `folder` itself.
std::vector<std::string> runs_of_table(const std::string& folder);
// The name of the run of a rank: "00003".
std::string run_name(int rank);
// Whether several ranks have saved it.
bool has_runs(const std::string& folder);

// Writes key, emb_vector and table.json of all runs of `folder` as one table into the folder `to`,
// keys ascending: what servers read.
std::vector<WrittenFile> merge_runs(const std::string& folder, const std::string& to);

}  // namespace emblem
