#include "serve/grpc/compression.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr size_t kPiece = 32768;
constexpr size_t kPiecesPerStep = 32;
// Above, a message is decoded on another thread.
constexpr size_t kLargeMessage = 65536;
// Below, expanding takes no longer than reading.
constexpr size_t kSmallLimit = 65536;

struct Deflater {
  explicit Deflater(ContentEncoding encoding) {
    if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, zlib_window(encoding), 8,
                     Z_DEFAULT_STRATEGY) != Z_OK)
      throw std::bad_alloc();
  }
  ~Deflater() { deflateEnd(&stream); }
  z_stream stream{};
};

void append(GrpcMessage& to, std::span<const std::byte> bytes, size_t max_bytes) {
  const size_t needed = to.size() + bytes.size();
  if (needed > max_bytes) throw_message_too_large(needed, max_bytes);
  if (needed > to.capacity()) to.reserve(std::min(max_bytes, std::max(needed, 2 * to.capacity())));
  to.append(bytes);
}

}  // namespace

std::optional<ContentEncoding> grpc_encoding_from_name(std::string_view name) {
  if (name.empty()) return ContentEncoding::kIdentity;
  for (const auto encoding :
       {ContentEncoding::kIdentity, ContentEncoding::kGzip, ContentEncoding::kDeflate}) {
    if (name == name_of(encoding)) return encoding;
  }
  return std::nullopt;
}

bool accepts(std::string_view list, ContentEncoding encoding) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    if (trim(list.substr(0, comma)) == name_of(encoding)) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

struct GrpcDecoding::Inflater {
  Inflater(ContentEncoding encoding, std::span<const std::byte> from) {
    if (inflateInit2(&stream, zlib_window(encoding)) != Z_OK) throw std::bad_alloc();
    // Messages have at most 2 GiB, so that zlib's 32 bits suffice.
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(from.data()));
    stream.avail_in = static_cast<uInt>(from.size());
  }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  z_stream stream{};
};

GrpcDecoding::GrpcDecoding(GrpcMessage message, ContentEncoding encoding, size_t max_bytes,
                           MemoryBudget* budget)
    : message_(std::move(message)), encoding_(encoding), max_bytes_(max_bytes), expanded_(budget, message_.size()) {}
GrpcDecoding::GrpcDecoding(GrpcDecoding&&) noexcept = default;
GrpcDecoding& GrpcDecoding::operator=(GrpcDecoding&&) noexcept = default;
GrpcDecoding::~GrpcDecoding() = default;

bool GrpcDecoding::is_long() const {
  if (message_.size() > kLargeMessage) return true;
  return message_.is_compressed && max_bytes_ > kSmallLimit;
}

bool GrpcDecoding::step() noexcept {
  if (!message_.is_compressed || problem_) return false;
  try {
    expand_some();
    return message_.is_compressed;
  } catch (...) {
    problem_ = std::current_exception();
    return false;
  }
}

void GrpcDecoding::expand_some() {
  if (!inflater_) inflater_ = std::make_unique<Inflater>(encoding_, message_.bytes());
  z_stream& stream = inflater_->stream;
  std::array<std::byte, kPiece> piece;
  for (size_t i = 0; i < kPiecesPerStep; ++i) {
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    const int result = inflate(&stream, Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END) {
      EMBLEM_REQUIRE(result != Z_BUF_ERROR, "the compressed message is cut off");
      throw Error(ErrorCode::kInvalidArgument,
                  cat("the message is not compressed by ", name_of(encoding_), " as it says: ",
                      stream.msg != nullptr ? stream.msg : "it cannot be expanded"));
    }
    append(expanded_, std::span(piece).first(piece.size() - stream.avail_out), max_bytes_);
    if (result != Z_STREAM_END) continue;
    EMBLEM_REQUIRE(stream.avail_in == 0, "the compressed message has ", stream.avail_in,
                   " bytes after its end");
    inflater_.reset();
    message_ = std::move(expanded_);  // which is not compressed
    return;
  }
}

GrpcMessage GrpcDecoding::take() {
  if (!problem_ && message_.size() > max_bytes_)
    throw_message_too_large(message_.size(), max_bytes_);
  while (step()) {
  }
  if (problem_) std::rethrow_exception(std::exchange(problem_, nullptr));
  return std::move(message_);
}

void compress(std::string& framed, ContentEncoding encoding) {
  if (encoding == ContentEncoding::kIdentity) return;
  Deflater deflater(encoding);
  z_stream& stream = deflater.stream;
  std::string smaller(framed.size(), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(framed.data() + kGrpcPrefixBytes);
  stream.avail_in = static_cast<uInt>(framed.size() - kGrpcPrefixBytes);
  stream.next_out = reinterpret_cast<Bytef*>(smaller.data() + kGrpcPrefixBytes);
  stream.avail_out = static_cast<uInt>(smaller.size() - kGrpcPrefixBytes);
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) return;
  smaller.erase(smaller.size() - stream.avail_out);
  framed = std::move(smaller);
  write_prefix(framed, /*is_compressed=*/true);
}

}  // namespace emblem
