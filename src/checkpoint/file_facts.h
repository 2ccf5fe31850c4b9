// checkpoint/file_facts.h - what a checkpoint remembers of each of its files.
#pragma once

#include <cstdint>
#include <string>

namespace emblem {

struct FileFacts {
  uint64_t bytes = 0;
  uint64_t checksum = 0;  // core/math/checksum.h

  bool operator==(const FileFacts&) const = default;
};

// Reads the whole file. Throws Error when it cannot.
FileFacts facts_of_file(const std::string& path);

}  // namespace emblem
