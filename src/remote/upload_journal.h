// remote/upload_journal.h - what of a working copy is in the store: the file .uploaded.json in it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace emblem {

struct FileStamp {  // stamp of a local file
  int64_t bytes = 0;
  int64_t changed = 0;  // nanoseconds
  bool operator==(const FileStamp&) const = default;
};

// Nothing where the file does not exist.
FileStamp stamp_of(const std::string& path);

// Thread rule: one thread at a time. Without the file, or with a damaged one, nothing counts as
// uploaded: the store is asked then.
class UploadJournal {
 public:
  explicit UploadJournal(std::string path);

  // Versions of a unit are named by the hash of their manifest.
  bool is_confirmed(const std::string& unit, const std::string& version) const;
  // Whether this copy brought that version to the store, or got it from there.
  bool is_own(const std::string& unit, const std::string& version) const;
  bool knows(const std::string& unit) const { return units_.contains(unit); }
  const auto& units() const { return units_; }

  // Called before the manifest of a version is sent.
  void will_send(const std::string& unit, const std::string& version);
  // The store has the whole version.
  void confirm(const std::string& unit, const std::string& version);
  void forget(const std::string& unit);

  // Files that are in the store as they are here, by name in the copy.
  bool has(const std::string& name, const FileStamp& stamp) const;
  void add(const std::string& name, const FileStamp& stamp) { files_[name] = stamp; }
  void drop(const std::string& name) { files_.erase(name); }
  const std::map<std::string, FileStamp>& files() const { return files_; }

  // Durable when it returns.
  void save() const;

 private:
  struct Unit {
    std::set<std::string> own;
    std::string confirmed;
  };
  void load();

  std::string path_;
  std::map<std::string, Unit> units_;
  std::map<std::string, FileStamp> files_;
};

}  // namespace emblem
