#include "core/files/output_file.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "core/text/parse_number.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kUnfinished = ".partial.";  // before the number of the writing process

int standard_output = STDOUT_FILENO;  // see reserve_standard_output

[[noreturn]] void fail(const std::string& path, int error) {
  throw Error(ErrorCode::kUnavailable, cat("cannot write ", path, ": ", std::strerror(error)));
}

// The number of an open file that `path` names; -1 for other paths.
int descriptor_of(std::string_view path) {
  if (is_standard_output(path)) return standard_output;
  if (path == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!path.starts_with(folder)) continue;
    const auto number = parse_number<int>(std::string_view(path).substr(folder.size()));
    if (!number || *number < 0) continue;
    return *number == STDOUT_FILENO ? standard_output : *number;
  }
  return -1;
}

// Where a chain of symbolic links ends, which need not exist.
std::string follow_links(std::string path) {
  constexpr int kMostLinks = 40;  // as the system's own limit
  for (int i = 0; i < kMostLinks; ++i) {
    std::error_code error;
    const fs::path next = fs::read_symlink(path, error);
    if (error) return path;
    path = next.is_absolute() ? next.string() : (fs::path(path).parent_path() / next).string();
  }
  fail(path, ELOOP);
}

struct FileKind {
  bool exists = false, is_regular = false;
  mode_t mode = 0;
};

FileKind kind_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {};
  if (S_ISDIR(status.st_mode)) fail(path, EISDIR);
  return {true, S_ISREG(status.st_mode), status.st_mode};
}

// Whether an item of a list of inputs reads all files of the folder, or all that match a pattern,
// to which `output` belongs or would belong.
bool reads_what_is_at(const std::string& item, const fs::path& output) {
  if (output.filename().string().starts_with('.')) return false;  // hidden files are skipped
  std::error_code ignored;
  if (fs::is_directory(item, ignored)) {
    const fs::path folder = output.parent_path();
    return fs::equivalent(folder.empty() ? "." : folder, item, ignored);
  }
  const bool is_pattern = item.find_first_of("*?[") != std::string::npos;
  return is_pattern && ::fnmatch(item.c_str(), output.c_str(), FNM_PATHNAME | FNM_PERIOD) == 0;
}

}  // namespace

OutputFile::OutputFile(const std::string& path) {
  EMBLEM_REQUIRE(!path.empty(),
                 "the name of an output file is empty; give a file, or - for standard output");
  if (const int descriptor = descriptor_of(path); descriptor >= 0) {
    std::fflush(stdout);
    const int copy = ::dup(descriptor);
    if (copy < 0) fail(path, errno);
    target_ = is_standard_output(path) ? "standard output" : path;
    writer_ = std::make_unique<FileWriter>(copy, target_);
    return;
  }
  target_ = follow_links(path);
  const FileKind kind = kind_of(target_);
  if (kind.exists && !kind.is_regular) {
    writer_ = std::make_unique<FileWriter>(target_);
    return;
  }
  temporary_ = unfinished_path(target_);
  writer_ = std::make_unique<FileWriter>(
      ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644), target_);
  if (kind.exists) ::chmod(temporary_.c_str(), kind.mode & 07777);
}

OutputFile::~OutputFile() {
  if (!finished_ && !temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::finish() {
  writer_->finish();
  if (!temporary_.empty()) {
    if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail(target_, errno);
    finished_ = true;
    sync_directory(fs::path(target_).parent_path().string());
  }
  finished_ = true;
}

std::string unfinished_path(const std::string& path) {
  const fs::path target(path);
  return target.parent_path() / cat(".", target.filename().string(), kUnfinished, ::getpid());
}

std::optional<int64_t> unfinished_by(std::string_view name) {
  const size_t mark = name.rfind(kUnfinished);
  if (!name.starts_with('.') || mark == std::string_view::npos) return std::nullopt;
  int64_t process = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + mark + kUnfinished.size(), end, process);
  if (error != std::errc() || stop != end) return std::nullopt;
  return process;
}

bool is_standard_output(std::string_view path) { return path == "-" || path == "/dev/stdout"; }

void check_output(const std::string& path) {
  if (path.empty() || descriptor_of(path) >= 0) return;
  const std::string target = follow_links(path);
  const FileKind kind = kind_of(target);
  const bool in_place = kind.exists && !kind.is_regular;
  const fs::path folder = fs::path(target).parent_path() / ".";  // "file/." is not a directory
  const int result =
      in_place ? ::access(target.c_str(), W_OK) : ::access(folder.c_str(), W_OK | X_OK);
  if (result != 0) fail(target, errno);
}

void reserve_standard_output() {
  if (standard_output != STDOUT_FILENO) return;
  std::fflush(stdout);
  standard_output = ::dup(STDOUT_FILENO);
  if (standard_output < 0 || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) fail("-", errno);
}

void refuse_input_as_output(std::string_view option, const std::string& output,
                            std::span<const std::string> inputs) {
  std::error_code ignored;
  if (is_standard_output(output)) return;
  for (const std::string& input : inputs) {
    if (fs::equivalent(input, output, ignored))
      throw Error(ErrorCode::kInvalidArgument,
                  cat(option, " ", output, " is also the input ", input, "; give another file"));
  }
}

void refuse_input_as_output(std::string_view option, const std::string& output,
                            std::string_view inputs) {
  std::error_code ignored;
  if (output.empty() || is_standard_output(output) || trim(inputs).empty()) return;
  for (const std::string& piece : split(inputs, ',')) {
    const std::string item(trim(piece));
    if (item.empty() || item.find("://") != std::string::npos) continue;  // not on this machine
    if (fs::exists(output, ignored))
      refuse_input_as_output(option, output, std::span<const std::string>(expand_paths(item)));
    for (const std::string& path : {output, follow_links(output)})
      EMBLEM_REQUIRE(!reads_what_is_at(item, path), option, " ", output, " is among the input ",
                     item, " and would be read as data next time; give a file elsewhere");
  }
}

void refuse_output_in(std::string_view option, const std::string& output,
                      const std::string& folder) {
  if (output.empty() || is_standard_output(output)) return;
  std::error_code ignored;
  fs::path above = fs::absolute(follow_links(output), ignored);
  while (above.has_relative_path()) {
    above = above.parent_path();
    EMBLEM_REQUIRE(!fs::equivalent(above, folder, ignored), option, " ", output, " is in ", folder,
                   ", which is only read; give a file elsewhere");
  }
}

}  // namespace emblem
