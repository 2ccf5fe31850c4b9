#include "serve/http/message/body.h"

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>

#include "core/text/text.h"
#include "serve/http/message/request_head.h"

namespace emblem {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kFirstBytes = size_t{64} << 10;

// zlib counts in 32 bits.
uInt most_at_once(size_t bytes) {
  return static_cast<uInt>(std::min<size_t>(bytes, std::numeric_limits<uInt>::max()));
}

// Drops output that does not fit: compression then saves nothing.
class Compressor {
 public:
  Compressor(ContentEncoding encoding, size_t room) : out_(room, '\0') {
    if (deflateInit2(&stream_, Z_BEST_SPEED, Z_DEFLATED, zlib_window(encoding), 8,
                     Z_DEFAULT_STRATEGY) != Z_OK)
      throw std::bad_alloc();
  }
  ~Compressor() { deflateEnd(&stream_); }
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;

  // False when the room does not suffice.
  bool write(std::span<const std::byte> bytes, int flush) {
    do {
      const uInt in = most_at_once(bytes.size()), room = most_at_once(out_.size() - done_);
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
      stream_.avail_in = in;
      stream_.next_out = reinterpret_cast<Bytef*>(out_.data() + done_);
      stream_.avail_out = room;
      const int result = deflate(&stream_, flush);
      bytes = bytes.subspan(in - stream_.avail_in);
      done_ += room - stream_.avail_out;
      if (result == Z_STREAM_END) return true;
      if (done_ == out_.size()) return false;
    } while (!bytes.empty() || flush == Z_FINISH);
    return true;
  }

  std::string finish() {
    out_.resize(done_);
    out_.shrink_to_fit();
    return std::move(out_);
  }

 private:
  z_stream stream_{};
  std::string out_;
  size_t done_ = 0;
};

}  // namespace

struct HttpBodyBuffer::Memory {
  MemoryBudget::Lease lease;
  std::unique_ptr<std::byte[]> bytes;
};

std::span<std::byte> HttpBodyBuffer::prepare(size_t wanted) {
  if (size_ == room_.size() && size_ < limit_) grow(wanted);
  return room_.subspan(size_);
}

void HttpBodyBuffer::grow(size_t wanted) {
  const size_t first = std::min(kFirstBytes, size_ + std::max<size_t>(wanted, 1));
  const size_t bytes = std::min(limit_, std::max(first, size_ * 2));
  auto memory = std::make_shared<Memory>();
  memory->lease = lease_of(budget_, beside_ + size_);  // until it is copied
  memory->lease.grow(bytes + kAlignment);
  memory->bytes = std::make_unique_for_overwrite<std::byte[]>(bytes + kAlignment);
  const size_t address = reinterpret_cast<size_t>(memory->bytes.get()) + aligned_at_;
  const size_t gap = (kAlignment - address % kAlignment) % kAlignment;
  const std::span<std::byte> room(memory->bytes.get() + gap, bytes);
  if (size_ > 0) std::memcpy(room.data(), room_.data(), size_);
  memory_ = std::move(memory);
  room_ = room;
}

void HttpBodyBuffer::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::span<std::byte> room = prepare(bytes.size());
    const size_t some = std::min(room.size(), bytes.size());
    EMBLEM_REQUIRE(some > 0, "the body has more than ", limit_, " bytes");
    std::memcpy(room.data(), bytes.data(), some);
    commit(some);
    bytes = bytes.subspan(some);
  }
}

HttpBody HttpBodyBuffer::take() {
  HttpBody body{std::move(memory_), room_.first(size_)};
  memory_.reset();
  room_ = {};
  size_ = 0;
  return body;
}

std::optional<ContentEncoding> encoding_from_name(std::string_view name) {
  name = trim(name);
  if (name.empty() || equal_ignoring_case(name, "identity")) return ContentEncoding::kIdentity;
  if (equal_ignoring_case(name, "gzip") || equal_ignoring_case(name, "x-gzip"))
    return ContentEncoding::kGzip;
  if (equal_ignoring_case(name, "deflate")) return ContentEncoding::kDeflate;
  return std::nullopt;
}

ContentEncoding choose_encoding(std::string_view accepted) {
  ContentEncoding best = ContentEncoding::kIdentity;
  double best_weight = 0;
  while (!accepted.empty()) {
    const size_t comma = accepted.find(',');
    std::string_view item = trim(accepted.substr(0, comma));
    accepted = comma == std::string_view::npos ? std::string_view() : accepted.substr(comma + 1);
    double weight = 1;
    if (const size_t semicolon = item.find(';'); semicolon != std::string_view::npos) {
      std::string_view weights = trim(item.substr(semicolon + 1));
      if (weights.starts_with("q="))
        std::from_chars(weights.data() + 2, weights.data() + weights.size(), weight);
      item = trim(item.substr(0, semicolon));
    }
    const std::optional<ContentEncoding> encoding = encoding_from_name(item);
    if (item.empty() || !encoding || *encoding == ContentEncoding::kIdentity || !(weight > 0))
      continue;
    const bool wins_tie = weight == best_weight && *encoding == ContentEncoding::kGzip;
    if (weight > best_weight || wins_tie) {
      best = *encoding;
      best_weight = weight;
    }
  }
  return best;
}

struct HttpBodyExpander::Inflater {
  Inflater(std::span<const std::byte> bytes, ContentEncoding encoding) : left_(bytes) {
    if (inflateInit2(&stream_, zlib_window(encoding)) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Fills `out` as far as possible; the number of bytes. Less than all: it is complete.
  size_t read(std::span<std::byte> out) {
    size_t done = 0;
    while (done < out.size() && !is_complete_) {
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(left_.data()));
      stream_.avail_in = most_at_once(left_.size());
      stream_.next_out = reinterpret_cast<Bytef*>(out.data() + done);
      stream_.avail_out = most_at_once(out.size() - done);
      const uInt in = stream_.avail_in, room = stream_.avail_out;
      const int result = inflate(&stream_, Z_NO_FLUSH);
      left_ = left_.subspan(in - stream_.avail_in);
      done += room - stream_.avail_out;
      if (result == Z_STREAM_END) {
        // gzip allows several members, one after the other.
        is_complete_ = left_.empty();
        if (!is_complete_) inflateReset(&stream_);
      } else if (result != Z_OK) {
        EMBLEM_REQUIRE(result != Z_BUF_ERROR, "the compressed body is cut off");
        throw Error(ErrorCode::kInvalidArgument,
                    cat("the body is not what its Content-Encoding says: ",
                        stream_.msg ? stream_.msg : "it cannot be expanded"));
      }
    }
    return done;
  }

  bool is_complete() const { return is_complete_; }

 private:
  z_stream stream_{};
  std::span<const std::byte> left_;
  bool is_complete_ = false;
};

HttpBodyExpander::HttpBodyExpander(HttpBody compressed, ContentEncoding encoding, size_t aligned_at,
                                   size_t limit, MemoryBudget* budget)
    : compressed_(std::move(compressed)),
      inflater_(std::make_unique<Inflater>(compressed_.bytes, encoding)),
      // One byte more shows what is too large.
      expanded_(aligned_at, limit + 1, budget, compressed_.bytes.size()) {}
HttpBodyExpander::~HttpBodyExpander() = default;

HttpBodyExpander::State HttpBodyExpander::step(size_t bytes) {
  while (bytes > 0) {
    std::span<std::byte> room =
        expanded_.prepare(std::max<size_t>(4096, compressed_.bytes.size() * 4));
    room = room.first(std::min(room.size(), bytes));
    const size_t got = inflater_->read(room);
    expanded_.commit(got);
    if (expanded_.size() == expanded_.limit()) return State::kTooLarge;
    if (inflater_->is_complete()) return State::kComplete;
    bytes -= got;
  }
  return State::kMore;
}

HttpBody HttpBodyExpander::take() { return expanded_.take(); }

size_t body_bytes(const HttpResponse& response) {
  size_t bytes = response.body.size();
  for (const auto& tensor : response.tensors) bytes += tensor.size();
  return bytes;
}

void compress_response(HttpResponse& response, ContentEncoding encoding, MemoryBudget* budget) {
  const auto memory = budget == nullptr ? std::make_shared<MemoryBudget::Lease>()
                                        : std::make_shared<MemoryBudget::Lease>(*budget);
  if (!memory->try_grow(body_bytes(response))) return;
  Compressor compressor(encoding, body_bytes(response));
  bool smaller = compressor.write(std::as_bytes(std::span(response.body)), Z_NO_FLUSH);
  for (const auto& tensor : response.tensors) {
    smaller = smaller && compressor.write(tensor, Z_NO_FLUSH);
  }
  if (!smaller || !compressor.write({}, Z_FINISH)) return;
  response.body = compressor.finish();
  response.tensors.clear();
  memory->shrink(memory->bytes() - response.body.size());
  response.memory = memory;
  response.headers.emplace_back("Content-Encoding", name_of(encoding));
}

}  // namespace emblem
