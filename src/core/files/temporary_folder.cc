#include "core/files/temporary_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "emblem/error.h"

namespace emblem {

TemporaryFolder::TemporaryFolder(const std::string& prefix) {
  std::error_code error;
  const std::filesystem::path root = std::filesystem::temp_directory_path(error);
  path_ = (root / (prefix + "_XXXXXX")).string();
  if (error || mkdtemp(path_.data()) == nullptr)
    throw Error(ErrorCode::kUnavailable, cat("cannot make a folder like ", path_, ": ",
                                             error ? error.message() : std::strerror(errno)));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace emblem
