// core/files/atomic_folder.h - a folder that appears whole under its name, or not at all.
#pragma once

#include <string>

#include "core/files/file_descriptor.h"

namespace emblem {

// Files are written into a hidden folder beside it, ".NAME.new-" and 16 hexadecimal digits, which
// commit() renames. Destroyed without commit(), nothing of it remains; what a killed process has
// left is removed by the next one that writes the same name. Any number of threads, processes and
// machines may write the same name at once: the first to commit has it.
class AtomicFolder {
 public:
  // Makes the hidden folder, and folders above it where they do not exist. Throws kInvalidArgument
  // where `target` is empty or exists; messages name `thing` ("table users", "the index").
  AtomicFolder(const std::string& target, const std::string& thing);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  // Where to write now.
  const std::string& path() const { return path_; }

  // Makes what was written appear. Throws, as the constructor does, where the target exists by now.
  void commit();

 private:
  void require_free() const;
  bool make_hidden();

  std::string given_, thing_;  // as messages have them
  std::string target_, path_;
  FileDescriptor lock_{-1};  // of the hidden folder: it is in use
  bool is_committed_ = false;
};

}  // namespace emblem
