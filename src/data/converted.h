// data/converted.h - what a conversion writes beside its rows.
#pragma once

#include <string>
#include <vector>

#include "data/format/reader.h"

namespace emblem {

// Writes FOLDER/.index.json: the files of a converted data set with their sizes and, for every file
// that was read, which rows are its own.
void write_bundle_index(const std::string& folder, const BlockReader& reader);

// Relative to the folder, sorted.
std::vector<std::string> files_in(const std::string& folder);

}  // namespace emblem
