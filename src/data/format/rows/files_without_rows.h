// data/format/rows/files_without_rows.h - files of a data set that hold no rows, as exports of days
// and partitions without events do: skipped as long as another file has rows.
#pragma once

#include <cstdint>
#include <string>

#include "data/format/input_file.h"

namespace emblem {

// What is wrong with a file of 0 bytes.
inline constexpr const char* kEmptyFile = "is empty; expected a file with rows";

// Collects them while a data set is opened. Used by one thread.
class FilesWithoutRows {
 public:
  // `input` names the data set.
  explicit FilesWithoutRows(std::string input) : input_(std::move(input)) {}

  // `problem` follows the name of the file: "has no rows".
  void add(const std::string& path, const std::string& problem);
  // Adds a file of 0 bytes; true if it is one.
  bool add_if_empty(const InputFile& file);

  // After all of the data set's `files` were looked at: throws Error where none has rows, else
  // warns with one line, once for each data set, which is opened for every evaluation.
  void finish(size_t files) const;

 private:
  std::string input_, first_, first_problem_;
  size_t count_ = 0;
};

}  // namespace emblem
