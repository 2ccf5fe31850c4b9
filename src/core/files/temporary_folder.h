// core/files/temporary_folder.h - a private folder that ends with the object.
#pragma once

#include <string>

namespace emblem {

class TemporaryFolder {
 public:
  // In the system's folder for temporary files, "PREFIX_XXXXXX". Throws kUnavailable with the
  // reason where it cannot be made.
  explicit TemporaryFolder(const std::string& prefix);
  ~TemporaryFolder();  // removes it with all that is in it
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace emblem
