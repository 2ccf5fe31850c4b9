// data/items/id_file.h - text files of ids that samplers read: a line that names columns, then a
// line for each item, user or edge.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/proto/data.pb.h"
#include "data/source/storage.h"

namespace emblem {

// One line at a time:
//
//   for (IdFile file(...); file.next();) use(file[0], file.weight(1));
class IdFile {
 public:
  // The file must begin with `columns`, "id:int64", whose types do not matter; others may follow.
  // `storage` may be null for a file on this machine. Throws Error that names file and line for one
  // that is not there or has other columns.
  IdFile(const std::string& path, std::vector<std::string> columns, char delimiter,
         const Storage& storage);

  // The next line that is not empty; false at the end. Throws Error for one with fewer fields than
  // columns.
  bool next();

  // A field of the line, which is not empty but for the last one, which has all that follows.
  // Valid as long as the file.
  std::string_view operator[](size_t column) const { return fields_[column]; }
  // A field as a number of at least 0; throws Error for other text.
  double weight(size_t column) const;

  // Throws Error that names file and line.
  [[noreturn]] void fail(const std::string& problem) const;

  const std::string& path() const { return path_; }

 private:
  std::string_view take_line();
  void split(std::string_view line);

  const std::string path_;
  const std::vector<std::string> columns_;
  const char delimiter_;
  std::string content_;
  std::string_view rest_;
  std::vector<std::string_view> fields_;
  size_t width_ = 0;  // columns of the file
  int64_t line_ = 0;
};

// `storage`, or where that is null and one of the files is remote, one with the settings of `data`.
Storage storage_of_files(const config::DataConfig& data, const std::vector<std::string>& files,
                         const Storage& storage);

// The next part of `text`, which ends before the separator; `text` becomes what follows it.
std::string_view take_until(std::string_view& text, char separator);

}  // namespace emblem
