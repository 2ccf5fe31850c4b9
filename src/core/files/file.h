// core/files/file.h - files with clear errors: every failure is an Error that names the path and
// the reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace emblem {

// Nanoseconds since 1970; for the times of files, which change within a second.
inline int64_t nanoseconds(const timespec& time) {
  return time.tv_sec * int64_t{1000000000} + time.tv_nsec;
}

// A file mapped for reading. An empty file has an empty span.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const char> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  const char* data_ = nullptr;
  size_t size_ = 0;
};

// Writes a file front to back through a buffer, keeping the checksum (core/math/checksum.h) of what
// was written. Errors (a full disk, say) throw at write or finish; without finish the file is
// incomplete.
class FileWriter {
 public:
  explicit FileWriter(const std::string& path);
  // Writes to an open file, which it closes; `name` stands for it in messages.
  FileWriter(int descriptor, const std::string& name);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;

  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  // Flushes, syncs to the disk and closes.
  void finish();

  uint64_t bytes_written() const;
  uint64_t checksum() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string read_text_file(const std::string& path);

// Replaces `path` in one step: readers see the old text or the new, whatever happens. Links, pipes,
// devices and "-" are treated as in core/files/output_file.h.
void write_text_file_atomically(const std::string& path, std::string_view text);

// Makes the folder, and those above it, where they do not exist.
void make_folders(const std::string& path);

// Gives a file or folder another name on the same file system; a file of that name is replaced.
void rename_path(const std::string& from, const std::string& to);

// Removes a file, or a folder with all it holds. Nothing to remove is not an error.
void remove_path(const std::string& path);

// Makes the names in a directory durable (fsync on the directory).
void sync_directory(const std::string& path);

// Splits a comma-separated list of files, folders and globs into files, sorted within each item.
// Names in a folder that begin with "." or "_" are skipped; its folders "NAME=VALUE" are read,
// other folders are not. Throws when an item matches nothing.
std::vector<std::string> expand_paths(std::string_view list);

// The items of such a list with paths that do not depend on the current folder. Globs stay globs,
// and so does the address of a topic of Kafka.
std::string absolute_paths(std::string_view list);

}  // namespace emblem
