// data/source/objects/copy_check.h - whether a copy of a remote folder
// (data/source/folder_copies.h) is still what was downloaded: the hidden file .checksums.json in it
// has sizes and checksums.
#pragma once

#include <string>

namespace emblem {

// Checksums of all files that are not hidden.
void write_copy_checksums(const std::string& copy);
bool has_copy_checksums(const std::string& copy);

// kWhereChanged: checksums are compared of files that were changed since that was last done, and of
// all after the machine was started again.
enum class CompareCopy { kWhereChanged, kAll };
// False also for a copy without checksums.
bool is_copy_intact(const std::string& copy, CompareCopy compare);

}  // namespace emblem
