// data/format/input_file.h - a file read at any place from many threads: on this machine, or an
// object of a remote store (data/source/remote_storage.h). Reads copy instead of mapping, so that a
// training run's memory does not grow with its files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/source/storage.h"

namespace emblem {

class ObjectFile;

class InputFile {
 public:
  // Throws Error when there is no such file or it cannot be read.
  explicit InputFile(std::string path, const Storage& storage = nullptr);
  // Takes over the open `descriptor`, which holds what `path` stands for.
  static InputFile adopt(std::string path, int descriptor);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;

  const std::string& path() const { return path_; }
  int64_t bytes() const { return bytes_; }

  // From now on reads bypass the page cache (O_DIRECT). False, and nothing changes, where the file
  // system refuses.
  bool read_directly();

  // Fills `into` with `count` bytes from `offset` on; throws Error when the file ends before.
  void read(int64_t offset, int64_t count, void* into) const;

  // For a remote file: fetches these bytes, which will be read soon. Returns at once.
  void prefetch(int64_t offset, int64_t count) const;

 private:
  InputFile() = default;

  void read_remote(int64_t offset, int64_t count, void* into) const;
  // Up to `count` bytes; 0 at the end.
  int64_t read_some(int64_t offset, int64_t count, char* into) const;
  void require_more(int64_t got, int64_t offset) const;

  std::string path_;
  int descriptor_ = -1;
  Storage storage_;                     // storage of remote_
  std::shared_ptr<ObjectFile> remote_;  // in place of a descriptor
  int64_t bytes_ = 0;
  bool direct_ = false;
};

// Opens all of them, empty ones too. The first bytes of remote ones, which readers look at first,
// are fetched side by side.
std::vector<InputFile> open_input_files(const std::vector<std::string>& paths,
                                        const Storage& storage);

}  // namespace emblem
