#include "data/format/text/text_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#ifdef EMBLEM_WITH_ZLIB
#include <zlib.h>
#endif
#ifdef EMBLEM_WITH_ZSTD
#include <zstd.h>
#endif

#include "core/system/log.h"
#include "core/text/text.h"
#include "core/threads/thread_pool.h"
#include "data/format/file_kind.h"
#include "data/format/input_file.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Takes decompressed bytes in order; false ends the decompression.
using TakeBytes = std::function<bool(std::span<const char> bytes)>;

constexpr int64_t kChunk = int64_t{1} << 18;

// The compressed bytes, a chunk at a time.
class Source {
 public:
  explicit Source(const InputFile& file) : file_(file), buffer_(kChunk) {}

  // Empty at the end.
  std::span<char> next() {
    const int64_t count = std::min(kChunk, file_.bytes() - at_);
    if (count > 0) file_.read(at_, count, buffer_.data());
    at_ += count;
    return {buffer_.data(), static_cast<size_t>(count)};
  }

  [[noreturn]] void fail(const std::string& why, int64_t decompressed) const {
    throw Error(ErrorCode::kCorruption, cat(file_.path(), " ", why, " (after ", decompressed,
                                            " bytes of its content); compress it again"));
  }
  const std::string& path() const { return file_.path(); }

 private:
  const InputFile& file_;
  int64_t at_ = 0;
  std::vector<char> buffer_;
};

[[noreturn]] [[maybe_unused]] void refuse(const std::string& path, const char* kind,
                                          const char* library, const char* program) {
  throw Error(ErrorCode::kUnsupported,
              cat(path, " is compressed by ", kind, ", but this program was compiled without ",
                  library, "; decompress it first: ", program));
}

#ifdef EMBLEM_WITH_ZLIB

class GzipStream {
 public:
  explicit GzipStream(Source& source) : source_(source) {
    if (inflateInit2(&stream_, 15 + 16) != Z_OK)  // the largest window, gzip headers
      throw Error(ErrorCode::kOutOfMemory, "cannot start zlib");
  }
  ~GzipStream() { inflateEnd(&stream_); }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  void run(const TakeBytes& take) {
    std::vector<char> out(kChunk);
    bool full = false;  // the output is full: more may be waiting
    while (full || refill()) {
      if (member_ended_ && !begin_member()) return;
      stream_.next_out = reinterpret_cast<Bytef*>(out.data());
      stream_.avail_out = kChunk;
      const int status = inflate(&stream_, Z_NO_FLUSH);
      const size_t made = static_cast<size_t>(kChunk) - stream_.avail_out;
      if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
        source_.fail(cat("is a corrupt gzip file: ", stream_.msg ? stream_.msg : "bad data"),
                     total_);
      total_ += static_cast<int64_t>(made);
      if (made > 0 && !take({out.data(), made})) return;
      member_ended_ = status == Z_STREAM_END;
      full = made == static_cast<size_t>(kChunk) && !member_ended_;
    }
    if (!member_ended_) source_.fail("is a truncated gzip file", total_);
  }

 private:
  // False when no input is left.
  bool refill() {
    if (stream_.avail_in > 0) return true;
    const std::span<char> bytes = source_.next();
    stream_.next_in = reinterpret_cast<Bytef*>(bytes.data());
    stream_.avail_in = static_cast<uInt>(bytes.size());
    return !bytes.empty();
  }

  // After a member: another one, or zeros that fill up a block of a tape. False at the end of
  // these.
  bool begin_member() {
    while (*stream_.next_in == 0) {
      ++stream_.next_in;
      if (--stream_.avail_in == 0 && !refill()) return false;
    }
    if (*stream_.next_in != 0x1f) source_.fail("has bytes that are not gzip after its end", total_);
    inflateReset(&stream_);
    member_ended_ = false;
    return true;
  }

  Source& source_;
  z_stream stream_{};
  bool member_ended_ = false;
  int64_t total_ = 0;
};

void gunzip(Source& source, const TakeBytes& take) { GzipStream(source).run(take); }

#else

void gunzip(Source& source, const TakeBytes&) { refuse(source.path(), "gzip", "zlib", "gunzip"); }

#endif
#ifdef EMBLEM_WITH_ZSTD

void unzstd(Source& source, const TakeBytes& take) {
  const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(),
                                                                   ZSTD_freeDCtx);
  if (!context) throw Error(ErrorCode::kOutOfMemory, "cannot start zstd");
  std::vector<char> out(kChunk);
  size_t left = 0;  // what the frame still needs: 0 between frames
  int64_t total = 0;
  for (std::span<char> bytes = source.next(); !bytes.empty(); bytes = source.next()) {
    ZSTD_inBuffer input{bytes.data(), bytes.size(), 0};
    bool full = true;  // the output is full: more may be waiting
    while (input.pos < input.size || full) {
      ZSTD_outBuffer output{out.data(), out.size(), 0};
      const size_t before = input.pos;
      const size_t status = ZSTD_decompressStream(context.get(), &output, &input);
      if (ZSTD_isError(status))
        source.fail(cat("is a corrupt zstd file: ", ZSTD_getErrorName(status)), total);
      if (input.pos > before || output.pos > 0) left = status;
      total += static_cast<int64_t>(output.pos);
      if (output.pos > 0 && !take({out.data(), output.pos})) return;
      full = output.pos == output.size;
    }
  }
  if (left != 0) source.fail("is a truncated zstd file", total);
}

#else

void unzstd(Source& source, const TakeBytes&) {
  refuse(source.path(), "zstd", "libzstd", "unzstd");
}

#endif

// Decompresses `file`, all members or frames of it. Throws Error that names the file when it is
// truncated or corrupt, or when this program was compiled without the library.
void decompress(const InputFile& file, FileKind kind, const TakeBytes& take) {
  Source source(file);
  if (kind == FileKind::kGzip) return gunzip(source, take);
  if (kind == FileKind::kZstd) return unzstd(source, take);
  throw Error(ErrorCode::kInternal, cat(file.path(), " is not compressed"));
}

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
      return static_cast<int64_t>(text.size()) < count + kTextPrefixBytes;
    });
  } else {
    text.resize(static_cast<size_t>(std::min(file.bytes(), count + kTextPrefixBytes)));
    file.read(0, static_cast<int64_t>(text.size()), text.data());
  }
  require_text(std::string_view(text).substr(0, kFileKindBytes), path);
  text.erase(0, static_cast<size_t>(text_prefix(text)));
  text.resize(std::min(text.size(), static_cast<size_t>(count)));
  return text;
}

}  // namespace emblem
