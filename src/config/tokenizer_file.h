// config/tokenizer_file.h - the size of the vocabulary of a tokenizer.json.
#pragma once

#include <cstdint>
#include <string>

namespace emblem {

// The largest token + 1, of the model and of added tokens. Throws Error that names the file when it
// cannot be read or is not a tokenizer.json of Hugging Face.
int64_t tokenizer_rows(const std::string& path);

}  // namespace emblem
