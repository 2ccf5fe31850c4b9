// data/format/output_folder.h - a data set appears whole or not at all.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace emblem {

enum class Overwrite { kRefuse, kReplace };

// Whether a data set has files of this name ("train/part-00000.csv", relative to its folder).
// Anything else in a folder or below an address belongs to somebody: it is never replaced.
bool is_name_in_data_set(std::string_view name);

// A folder that is written under a hidden name (".NAME.partial") and renamed by commit(). Destroyed
// without commit(), or after a crash and a new run, nothing of it remains.
class OutputFolder {
 public:
  // Throws Error when `target` is a file, is in the making by another process, or is a folder that
  // is not empty; with kReplace only when that folder holds anything but a data set, at any depth.
  OutputFolder(const std::string& target, Overwrite overwrite);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  // Where to write now; a folder that exists.
  const std::string& path() const { return partial_; }
  const std::string& target() const { return target_; }

  // Renames the folder to target(), and removes what it replaces. Throws Error when that is not
  // what the constructor allows any more.
  void commit();

 private:
  void lock();

  std::string target_, partial_;
  Overwrite overwrite_;
  std::vector<std::string> made_parents_;  // innermost first
  int lock_ = -1;
  bool committed_ = false;
};

}  // namespace emblem
