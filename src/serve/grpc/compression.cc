#include "serve/grpc/compression.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr size_t kStep = 32768;

struct Inflater {
  explicit Inflater(ContentEncoding encoding) {
    if (inflateInit2(&stream, zlib_window(encoding)) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream); }
  z_stream stream{};
};

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

GrpcMessage expand(const GrpcMessage& compressed, ContentEncoding encoding, size_t max_bytes,
                   MemoryBudget* budget) {
  GrpcMessage expanded(budget);
  Inflater inflater(encoding);
  z_stream& stream = inflater.stream;
  // Messages have at most 2 GiB, so that zlib's 32 bits suffice.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(compressed.bytes().data()));
  stream.avail_in = static_cast<uInt>(compressed.size());
  std::array<std::byte, kStep> step;
  for (int result = Z_OK; result != Z_STREAM_END;) {
    stream.next_out = reinterpret_cast<Bytef*>(step.data());
    stream.avail_out = static_cast<uInt>(step.size());
    result = inflate(&stream, Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END) {
      EMBLEM_REQUIRE(result != Z_BUF_ERROR, "the compressed message is cut off");
      throw Error(ErrorCode::kInvalidArgument,
                  cat("the message is not compressed by ", name_of(encoding), " as it says: ",
                      stream.msg != nullptr ? stream.msg : "it cannot be expanded"));
    }
    append(expanded, std::span(step).first(step.size() - stream.avail_out), max_bytes);
  }
  EMBLEM_REQUIRE(stream.avail_in == 0, "the compressed message has ", stream.avail_in,
                 " bytes after its end");
  return expanded;
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
