// remote/unit_snapshot.h - the files of a unit as they are at one moment, while their owner may
// replace or remove it.
#pragma once

#include <string>
#include <vector>

#include "remote/upload_journal.h"

namespace emblem {

struct SnapshotFile {
  std::string name;  // within the unit
  FileStamp stamp;
};

// Hard links to the files in a folder of its own, which is removed at the end; copies where the
// file system has no links.
class UnitSnapshot {
 public:
  // A snapshot of FOLDER/UNIT at `at`, which must not exist or is removed first.
  UnitSnapshot(const std::string& unit_folder, std::string at);
  ~UnitSnapshot();
  UnitSnapshot(const UnitSnapshot&) = delete;
  UnitSnapshot& operator=(const UnitSnapshot&) = delete;

  // False when the unit was removed or replaced meanwhile.
  bool is_whole() const { return is_whole_; }
  const std::string& path() const { return path_; }
  const std::vector<SnapshotFile>& files() const { return files_; }
  const std::string& manifest() const { return manifest_; }  // its text

 private:
  bool link_all(const std::string& from);

  std::string path_;
  std::vector<SnapshotFile> files_;
  std::string manifest_;
  bool is_whole_ = false;
};

// Names of the regular files below a folder, sorted; hidden ones are skipped.
std::vector<std::string> visible_files(const std::string& folder);

}  // namespace emblem
