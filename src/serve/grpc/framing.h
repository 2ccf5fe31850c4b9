// serve/grpc/framing.h - messages in the bytes of a gRPC stream: each after a byte that says
// whether it is compressed, and its length in four bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "serve/protocol/memory_budget.h"

namespace emblem {

inline constexpr size_t kGrpcPrefixBytes = 5;
// Limit of the requests of calls that bring neither tensors nor files.
inline constexpr size_t kSmallRequestBytes = 8192;

// Bytes with what they take of the budget.
class GrpcMessage {
 public:
  GrpcMessage() = default;
  // `beside`: what the same request holds of the budget besides.
  explicit GrpcMessage(MemoryBudget* budget, size_t beside = 0)
      : lease_(lease_of(budget, beside)) {}

  std::span<const std::byte> bytes() const { return {memory_.get(), size_}; }
  size_t size() const { return size_; }

  // Room for this many bytes in all. Throws as MemoryBudget::Lease::grow.
  void reserve(size_t bytes);
  size_t capacity() const { return lease_.bytes(); }
  // The room must be there.
  void append(std::span<const std::byte> bytes);

  bool is_compressed = false;

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  MemoryBudget::Lease lease_;
  std::unique_ptr<std::byte, Free> memory_;
  size_t size_ = 0;
};

// Splits a stream into messages, however its bytes arrive. Memory grows with what has arrived, not
// with the length that a prefix claims.
class GrpcFrameReader {
 public:
  // `budget`: null: none.
  GrpcFrameReader(size_t max_bytes, MemoryBudget* budget)
      : max_bytes_(max_bytes), budget_(budget) {}

  // Takes bytes off the front of `bytes` up to the end of the message; nullopt: it took all, and
  // the message is not complete. Throws kTooLarge for a message above the limit, before any of it
  // is held, kUnavailable when the budget is exhausted, kInvalidArgument for a bad prefix; then
  // the stream cannot be read further.
  std::optional<GrpcMessage> read(std::span<const std::byte>& bytes);

  // Whether it has part of a message.
  bool is_inside() const { return prefix_bytes_ > 0; }

 private:
  void begin();

  size_t max_bytes_;
  MemoryBudget* budget_;
  std::array<std::byte, kGrpcPrefixBytes> prefix_{};
  size_t prefix_bytes_ = 0;
  size_t length_ = 0;  // length of the message, once its prefix is complete
  GrpcMessage message_;
};

// Writes the prefix of a message that follows in `framed` from kGrpcPrefixBytes on.
void write_prefix(std::string& framed, bool is_compressed);

// The message too large for the limit.
[[noreturn]] void throw_message_too_large(size_t bytes, size_t limit);

}  // namespace emblem
