// config/load/vocabulary_file.h - the words of a vocab_file, and the size of a tokenizer.json.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace emblem {

// The largest token + 1, of the model and of added tokens. Throws Error that names the file when it
// cannot be read or is not a tokenizer.json of Hugging Face.
int64_t tokenizer_rows(const std::string& path);

// Words and their rows. Lines are "WORD", with rows counted from 0, or "WORD ROW". Throws Error
// with the line for a row that is not a number and for a duplicate word, and for files that mix
// both.
std::map<std::string, uint64_t> read_vocabulary_file(const std::string& path);

}  // namespace emblem
