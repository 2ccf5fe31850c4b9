#include "data/format/decompress.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#ifdef EMBLEM_WITH_ZLIB
#include <zlib.h>
#endif
#ifdef EMBLEM_WITH_ZSTD
#include <zstd.h>
#endif

#include "emblem/error.h"

namespace emblem {
namespace {

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
    bool full = false;  // of output: more may be waiting
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
    bool full = true;  // of output: more may be waiting
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

}  // namespace

void decompress(const InputFile& file, FileKind kind, const TakeBytes& take) {
  Source source(file);
  if (kind == FileKind::kGzip) return gunzip(source, take);
  if (kind == FileKind::kZstd) return unzstd(source, take);
  throw Error(ErrorCode::kInternal, cat(file.path(), " is not compressed"));
}

}  // namespace emblem
