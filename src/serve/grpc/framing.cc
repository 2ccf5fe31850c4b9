#include "serve/grpc/framing.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "emblem/error.h"

namespace emblem {
namespace {

constexpr size_t kFirstRoom = 65536;

}  // namespace

void GrpcMessage::reserve(size_t bytes) {
  if (bytes <= capacity()) return;
  lease_.grow(bytes - capacity());
  auto* moved = static_cast<std::byte*>(std::realloc(memory_.get(), bytes));
  if (moved == nullptr) throw std::bad_alloc();
  memory_.release();
  memory_.reset(moved);
}

void GrpcMessage::append(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  std::memcpy(memory_.get() + size_, bytes.data(), bytes.size());
  size_ += bytes.size();
}

std::optional<GrpcMessage> GrpcFrameReader::read(std::span<const std::byte>& bytes) {
  if (prefix_bytes_ < kGrpcPrefixBytes) {
    const size_t some = std::min(kGrpcPrefixBytes - prefix_bytes_, bytes.size());
    std::copy_n(bytes.begin(), some, prefix_.begin() + prefix_bytes_);
    prefix_bytes_ += some;
    bytes = bytes.subspan(some);
    if (prefix_bytes_ < kGrpcPrefixBytes) return std::nullopt;
    begin();
  }
  const size_t some = std::min(length_ - message_.size(), bytes.size());
  const size_t needed = message_.size() + some;
  if (needed > message_.capacity())
    message_.reserve(std::min(length_, std::max({needed, 2 * message_.capacity(), kFirstRoom})));
  message_.append(bytes.first(some));
  bytes = bytes.subspan(some);
  if (message_.size() < length_) return std::nullopt;
  prefix_bytes_ = 0;
  return std::move(message_);
}

void GrpcFrameReader::begin() {
  const auto flag = std::to_integer<unsigned>(prefix_[0]);
  EMBLEM_REQUIRE(flag <= 1, "the first byte of a gRPC message must be 0 or 1, not ", flag);
  length_ = 0;
  for (size_t i = 1; i < kGrpcPrefixBytes; ++i)
    length_ = length_ << 8 | std::to_integer<size_t>(prefix_[i]);
  if (length_ > max_bytes_) throw_message_too_large(length_, max_bytes_);
  if (budget_ != nullptr) budget_->require_can_fit(length_);
  message_ = GrpcMessage(budget_);
  message_.is_compressed = flag == 1;
}

void write_prefix(std::string& framed, bool is_compressed) {
  const size_t length = framed.size() - kGrpcPrefixBytes;
  framed[0] = is_compressed ? 1 : 0;
  for (size_t i = 1; i < kGrpcPrefixBytes; ++i)
    framed[i] = static_cast<char>(length >> (8 * (kGrpcPrefixBytes - 1 - i)));
}

void throw_message_too_large(size_t bytes, size_t limit) {
  const char* remedy =
      limit <= kSmallRequestBytes
          ? " in calls without tensors or files"
          : "; split the request, or start the server with a larger --max-request-size";
  throw Error(ErrorCode::kTooLarge, cat("the message has ", bytes,
                                        " bytes, but the server takes at most ", limit, remedy));
}

}  // namespace emblem
