// config/vocabulary_file.h - the vocab_file of a feature.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace emblem {

// Words and their rows. Lines are "WORD", with rows counted from 0, or "WORD ROW". Throws Error
// with the line for a row that is no number, a word that is there twice, and for files that mix
// both.
std::map<std::string, uint64_t> read_vocabulary_file(const std::string& path);

}  // namespace emblem
