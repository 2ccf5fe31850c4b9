#include "core/files/file.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/files/file_descriptor.h"
#include "core/files/output_file.h"
#include "core/math/checksum.h"
#include "core/system/warn_once.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBufferBytes = size_t{1} << 20;

[[noreturn]] void fail(const char* doing, const std::string& path, int error) {
  const auto code =
      error == ENOENT || error == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kUnavailable;
  throw Error(code, cat("cannot ", doing, " ", path, ": ", std::strerror(error)));
}

// Pipes and some network file systems cannot sync; the data is then as safe as it can be.
bool synced(int descriptor) {
  return ::fsync(descriptor) == 0 || errno == EINVAL || errno == ENOTSUP;
}

size_t readable_size(const std::string& path, int descriptor) {
  struct stat status;
  if (::fstat(descriptor, &status) != 0) fail("read", path, errno);
  if (S_ISDIR(status.st_mode)) fail("read", path, EISDIR);
  return static_cast<size_t>(status.st_size);
}

int open_for_reading(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail("read", path, errno);
  return descriptor;
}

}  // namespace

// ---- MappedFile ----

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const FileDescriptor file(open_for_reading(path));
  const size_t size = readable_size(path, file.get());
  if (size == 0) return;
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) fail("map", path, errno);
  data_ = static_cast<const char*>(data);
  size_ = size;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<char*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

// ---- FileWriter ----

struct FileWriter::State {
  std::string path;
  FileDescriptor file;
  std::unique_ptr<char[]> buffer = std::make_unique_for_overwrite<char[]>(kBufferBytes);
  size_t buffered = 0;
  uint64_t accepted = 0;  // bytes given to write()
  uint64_t stored = 0;    // bytes the system took
  Checksum checksum;

  State(const std::string& path, int descriptor) : path(path), file(descriptor) {}

  [[noreturn]] void fail_to_write(int error) {
    ::close(file.release());
    const char* advice =
        error == ENOSPC || error == EDQUOT ? "; free some space and run again" : "";
    throw Error(ErrorCode::kUnavailable,
                cat("cannot write ", path, ": ", std::strerror(error), " (", stored, " bytes of ",
                    accepted, " written so far)", advice));
  }

  void store(const char* data, size_t bytes) {
    while (bytes > 0) {
      const ssize_t taken = ::write(file.get(), data, bytes);
      if (taken < 0 && errno == EINTR) continue;
      if (taken < 0) fail_to_write(errno);
      data += taken;
      bytes -= static_cast<size_t>(taken);
      stored += static_cast<uint64_t>(taken);
    }
  }

  void flush() { store(buffer.get(), std::exchange(buffered, 0)); }

  void require_open() const {
    EMBLEM_REQUIRE(file.get() >= 0, "cannot write ", path, ": it is already closed");
  }
};

FileWriter::FileWriter(const std::string& path)
    : FileWriter(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644), path) {}

FileWriter::FileWriter(int descriptor, const std::string& name)
    : state_(std::make_unique<State>(name, descriptor)) {
  if (descriptor < 0) fail("write", name, errno);
}

FileWriter::~FileWriter() = default;

void FileWriter::write(const void* data, size_t bytes) {
  State& state = *state_;
  state.require_open();
  if (bytes == 0) return;
  state.accepted += bytes;
  state.checksum.add(data, bytes);
  if (bytes > kBufferBytes - state.buffered) state.flush();
  if (bytes >= kBufferBytes) {
    state.store(static_cast<const char*>(data), bytes);
    return;
  }
  std::memcpy(state.buffer.get() + state.buffered, data, bytes);
  state.buffered += bytes;
}

void FileWriter::finish() {
  State& state = *state_;
  state.require_open();
  state.flush();
  if (!synced(state.file.get())) state.fail_to_write(errno);
  if (::close(state.file.release()) != 0) fail("write", state.path, errno);
}

uint64_t FileWriter::bytes_written() const { return state_->accepted; }
uint64_t FileWriter::checksum() const { return state_->checksum.value(); }

// ---- whole files ----

std::string read_text_file(const std::string& path) {
  const FileDescriptor file(open_for_reading(path));
  std::string text;
  text.reserve(readable_size(path, file.get()));
  for (char piece[1 << 16];;) {  // by pieces: the size of a pipe or of /proc is not known
    const ssize_t taken = ::read(file.get(), piece, sizeof(piece));
    if (taken < 0 && errno == EINTR) continue;
    if (taken < 0) fail("read", path, errno);
    if (taken == 0) return text;
    text.append(piece, static_cast<size_t>(taken));
  }
}

void write_text_file_atomically(const std::string& path, std::string_view text) {
  OutputFile file(path);
  file.write(text);
  file.finish();
}

void make_folders(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error && !fs::is_directory(path, error) && !error)
    error = std::make_error_code(std::errc::not_a_directory);
  if (error) fail("make the folder", path, error.value());
}

void rename_path(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) fail(cat("rename ", from, " to").c_str(), to, error.value());
}

void remove_path(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) fail("remove", path, error.value());
}

void sync_directory(const std::string& path) {
  const std::string folder = path.empty() ? "." : path;
  const FileDescriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0 || !synced(directory.get())) fail("sync the folder", folder, errno);
}

// ---- lists of files ----

namespace {

std::vector<std::string> files_in_folder(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool hidden = name.starts_with('.') || name.starts_with('_');
    if (hidden) continue;
    const std::string path = entry->path().string();
    if (std::error_code missing; entry->is_symlink() && !fs::exists(entry->path(), missing))
      throw Error(ErrorCode::kNotFound,
                  cat(path, " is a link to nothing; bring back what it leads to, or remove it"));
    if (entry->is_regular_file()) files.push_back(path);
    if (!entry->is_directory()) continue;
    // A partition of Hive and Spark: "day=2026-11-16".
    if (name.find('=') == std::string::npos)
      warn_once(path, cat(path,
                          " is a folder and is not read; only partitions like day=2026-11-16 are, "
                          "or files that are named: ",
                          path, "/*"));
    else
      for (std::string& file : files_in_folder(path)) files.push_back(std::move(file));
  }
  if (error) fail("list the folder", folder, error.value());
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> matches_of(const std::string& pattern) {
  glob_t found{};
  const int status = ::glob(pattern.c_str(), 0, nullptr, &found);
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (status != 0 && status != GLOB_NOMATCH) {
    throw Error(ErrorCode::kUnavailable, cat("cannot search for files like ", pattern));
  }
  return paths;
}

bool is_pattern(const std::string& item) { return item.find_first_of("*?[") != std::string::npos; }

std::vector<std::string> expand_item(const std::string& item) {
  EMBLEM_REQUIRE(
      !item.starts_with("kafka://"), item.substr(0, item.find('?')),
      " is a topic of Kafka, which can only be trained on (train_input_path of a pipeline "
      "with KafkaDataset); expected files, folders or globs");
  std::error_code ignored;
  std::vector<std::string> paths{item};
  if (!fs::exists(item, ignored)) {
    if (!is_pattern(item)) fail("read", item, ENOENT);
    paths = matches_of(item);
    if (paths.empty()) throw Error(ErrorCode::kNotFound, cat("no file matches ", item));
  }
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    if (!fs::is_directory(path, ignored)) {
      files.push_back(path);
      continue;
    }
    for (std::string& file : files_in_folder(path)) files.push_back(std::move(file));
  }
  if (files.empty()) throw Error(ErrorCode::kNotFound, cat("the folder ", item, " has no files"));
  return files;
}

}  // namespace

std::string absolute_paths(std::string_view list) {
  if (list.starts_with("kafka://")) return std::string(list);  // has commas between brokers
  std::string absolute;
  for (const std::string& piece : split(list, ',')) {
    const std::string item(trim(piece));
    if (item.empty()) continue;
    if (!absolute.empty()) absolute += ',';
    const fs::path path = fs::absolute(item).lexically_normal();
    absolute += (path.has_filename() ? path : path.parent_path()).string();  // "folder/", too
  }
  return absolute;
}

std::vector<std::string> expand_paths(std::string_view list) {
  std::vector<std::string> files;
  for (const std::string& piece : split(list, ',')) {
    const std::string item(trim(piece));
    if (item.empty()) continue;
    for (std::string& file : expand_item(item)) files.push_back(std::move(file));
  }
  EMBLEM_REQUIRE(!files.empty(),
                 "a list of input files is empty; give files, folders or globs, comma-separated");
  return files;
}

}  // namespace emblem
