// data/converted.h - what a conversion writes beside its rows, and where data sets are put.
#pragma once

#include <functional>
#include <string>

#include "data/format/output_folder.h"
#include "data/format/reader.h"

namespace emblem {

// Writes FOLDER/.index.json: the files of a converted data set with their sizes and, for every file
// that was read, which rows are its own.
void write_bundle_index(const std::string& folder, const BlockReader& reader);

// Calls `write` with a folder to write to, and brings what it wrote to the address `to`: index and
// metadata.json last. Throws Error when there are objects already, unless they may be replaced.
void write_to_store(const std::string& to, Overwrite overwrite,
                    const std::function<void(const std::string& folder)>& write);

}  // namespace emblem
