#include "checkpoint/file_facts.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "core/math/checksum.h"
#include "emblem/error.h"

namespace emblem {

FileFacts facts_of_file(const std::string& path) {
  constexpr size_t kPiece = size_t{1} << 20;
  const auto close = [](std::FILE* file) { std::fclose(file); };
  // Read, not mapped: a disk that fails must give an error, not a signal.
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "rbe"), close);
  if (!file)
    throw Error(ErrorCode::kNotFound, cat("cannot read ", path, ": ", std::strerror(errno)));
  std::setvbuf(file.get(), nullptr, _IONBF, 0);
  const auto piece = std::make_unique_for_overwrite<char[]>(kPiece);
  FileFacts facts;
  Checksum checksum;
  while (const size_t taken = std::fread(piece.get(), 1, kPiece, file.get())) {
    checksum.add(piece.get(), taken);
    facts.bytes += taken;
  }
  if (std::ferror(file.get()) != 0) {
    throw Error(ErrorCode::kUnavailable, cat("cannot read ", path, ": ", std::strerror(errno)));
  }
  facts.checksum = checksum.value();
  return facts;
}

}  // namespace emblem
