#include "data/format/text_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "core/log.h"
#include "core/text.h"
#include "core/thread_pool.h"
#include "data/format/decompress.h"
#include "data/format/file_kind.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr int64_t kWorthALine = int64_t{64} << 20;  // compressed bytes whose wait is explained

std::string start_of(const InputFile& file) {
  std::string start(static_cast<size_t>(std::min(file.bytes(), kFileKindBytes)), '\0');
  file.read(0, static_cast<int64_t>(start.size()), start.data());
  return start;
}

bool is_compressed(FileKind kind) { return kind == FileKind::kGzip || kind == FileKind::kZstd; }

void require_text(std::string_view start, const std::string& path) {
  const FileKind kind = kind_of(start);
  if (is_compressed(kind))
    throw Error(ErrorCode::kInvalidArgument, cat(path, " is compressed twice; decompress it once"));
  if (kind == FileKind::kNotText)
    throw Error(ErrorCode::kInvalidArgument, not_text_problem(start, path));
}

// A file that is gone when it is closed.
class TemporaryFile {
 public:
  // `purpose` is the file whose content it takes, for messages.
  explicit TemporaryFile(std::string purpose) : purpose_(std::move(purpose)) {
    const char* configured = std::getenv("TMPDIR");
    folder_ = configured != nullptr && *configured != '\0' ? configured : "/var/tmp";
    descriptor_ = ::open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (descriptor_ >= 0) return;
    std::string name = folder_ + "/emblem-XXXXXX";  // file systems without O_TMPFILE
    descriptor_ = ::mkostemp(name.data(), O_CLOEXEC);
    if (descriptor_ < 0) fail();
    ::unlink(name.c_str());
  }
  ~TemporaryFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void append(std::span<const char> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail();
      bytes = bytes.subspan(static_cast<size_t>(written));
      bytes_ += written;
    }
  }

  int64_t bytes() const { return bytes_; }
  int release() { return std::exchange(descriptor_, -1); }

 private:
  [[noreturn]] void fail() const {
    throw Error(ErrorCode::kUnavailable,
                cat("cannot decompress ", purpose_, " into ", folder_, ": ", std::strerror(errno),
                    " (after ", format_bytes(static_cast<double>(bytes_)),
                    "); set TMPDIR to a folder with room for all input, or decompress it by hand"));
  }

  std::string purpose_, folder_;
  int descriptor_ = -1;
  int64_t bytes_ = 0;
};

InputFile open_decompressed(const InputFile& file, FileKind kind) {
  TemporaryFile content(file.path());
  decompress(file, kind, [&](std::span<const char> bytes) {
    content.append(bytes);
    return true;
  });
  InputFile opened = InputFile::adopt(file.path(), content.release());
  require_text(start_of(opened), opened.path());
  return opened;
}

}  // namespace

std::vector<InputFile> open_text_files(const std::vector<std::string>& paths, int threads,
                                       const Storage& storage) {
  std::vector<InputFile> inputs = open_input_files(paths, storage);
  std::vector<std::optional<InputFile>> files(paths.size());
  std::vector<size_t> compressed;
  int64_t bytes = 0;
  for (size_t i = 0; i < paths.size(); ++i) {
    files[i].emplace(std::move(inputs[i]));
    const std::string start = start_of(*files[i]);
    if (!is_compressed(kind_of(start))) {
      require_text(start, files[i]->path());
      continue;
    }
    compressed.push_back(i);
    bytes += files[i]->bytes();
  }
  if (bytes >= kWorthALine)
    log_info(cat("decompressing ", compressed.size(),
                 compressed.size() == 1 ? " file, " : " files, ",
                 format_bytes(static_cast<double>(bytes))));
  const auto count = static_cast<int64_t>(compressed.size());
  const auto decompress_range = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::optional<InputFile>& file = files[compressed[static_cast<size_t>(i)]];
      InputFile opened = open_decompressed(*file, kind_of(start_of(*file)));
      file.emplace(std::move(opened));
    }
  };
  if (count > 1 && threads > 1) {
    ThreadPool pool(static_cast<int>(std::min<int64_t>(threads, count)));
    parallel_for(Context{.threads = &pool}, count, 1, decompress_range);
  } else {
    decompress_range(0, count);
  }
  std::vector<InputFile> opened;
  for (std::optional<InputFile>& file : files) opened.push_back(std::move(*file));
  return opened;
}

void require_uncompressed(const InputFile& file) {
  EMBLEM_REQUIRE(!is_compressed(kind_of(start_of(file))), file.path(),
                 " is compressed; only text formats are read compressed, decompress it first");
}

std::string read_text_start(const std::string& path, int64_t count, const Storage& storage) {
  const InputFile file(path, storage);
  std::string text = start_of(file);
  const FileKind kind = kind_of(text);
  if (is_compressed(kind)) {
    text.clear();
    decompress(file, kind, [&](std::span<const char> bytes) {
      text.append(bytes.data(), bytes.size());
      return static_cast<int64_t>(text.size()) < count + 3;
    });
  } else {
    text.resize(static_cast<size_t>(std::min(file.bytes(), count + 3)));
    file.read(0, static_cast<int64_t>(text.size()), text.data());
  }
  require_text(std::string_view(text).substr(0, kFileKindBytes), path);
  text.erase(0, static_cast<size_t>(byte_order_mark(text)));
  text.resize(std::min(text.size(), static_cast<size_t>(count)));
  return text;
}

}  // namespace emblem
