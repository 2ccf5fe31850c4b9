// data/format/decompress.h - gzip and zstd streams.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "data/format/file_kind.h"
#include "data/format/input_file.h"

namespace emblem {

// Takes decompressed bytes in order; false ends the decompression.
using TakeBytes = std::function<bool(std::span<const char> bytes)>;

// Decompresses `file`, all members or frames of it. Throws Error that names the file when it is
// truncated or corrupt, or when this program was compiled without the library.
void decompress(const InputFile& file, FileKind kind, const TakeBytes& take);

}  // namespace emblem
