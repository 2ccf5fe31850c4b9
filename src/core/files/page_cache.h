// core/files/page_cache.h - the system's cache of files, filled or dropped: for measurements
// that must state which.
#pragma once

#include <span>
#include <string>

namespace emblem {

// The share of the files' pages that are in memory, 0 to 1 (1 without any bytes). Throws Error when
// a file cannot be opened.
double cached_share(std::span<const std::string> paths);

// Reads the files once, front to back.
void fill_page_cache(std::span<const std::string> paths);

// Asks the system to forget the files. Pages that are mapped or not yet written stay: cached_share
// returns the result.
void drop_page_cache(std::span<const std::string> paths);

}  // namespace emblem
