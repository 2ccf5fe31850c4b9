// data/format/text/text_file.h - opens files of text, compressed ones as if they were not.
//
// A compressed file cannot be read from the middle, but the loader cuts files into pieces that are
// read in any order, by many threads and again in every epoch, and a checkpoint says in which piece
// to continue. So a compressed file is decompressed once, when it is opened, into a temporary file
// without a name, and read from there: the batches are those of the decompressed file. Memory does
// not grow with it; the folder of temporary files ($TMPDIR, else /var/tmp) needs room for its
// content until the data set is closed.
#pragma once

#include <string>
#include <vector>

#include "data/format/input_file.h"

namespace emblem {

// Opens `paths`, decompressing up to `threads` files at a time. Throws Error when one is missing,
// not text, truncated or corrupt.
std::vector<InputFile> open_text_files(const std::vector<std::string>& paths, int threads,
                                       const Storage& storage = nullptr);

// For binary formats, which are not read compressed: throws Error when `file` is.
void require_uncompressed(const InputFile& file);

// Up to `count` bytes from the beginning of the text (text_prefix in data/format/file_kind.h).
// Throws like open_text_files.
std::string read_text_start(const std::string& path, int64_t count,
                            const Storage& storage = nullptr);

}  // namespace emblem
