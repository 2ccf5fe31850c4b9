// serve/http/message/body.h - memory for the bodies of requests, taken from the server's budget as
// their bytes arrive, and their compression.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "serve/http/message/message.h"
#include "serve/protocol/encoding/content_encoding.h"
#include "serve/protocol/memory_budget.h"

namespace emblem {

// Copies share the bytes.
struct HttpBody {
  std::shared_ptr<const void> memory;
  std::span<const std::byte> bytes;
};

// A body while it arrives. Places byte `aligned_at` of it at a multiple of 64 in memory: where the
// first binary tensor begins.
class HttpBodyBuffer {
 public:
  // `budget`: null: none. `beside`: what the request holds of it besides.
  HttpBodyBuffer(size_t aligned_at, size_t limit, MemoryBudget* budget, size_t beside = 0)
      : aligned_at_(aligned_at), limit_(limit), budget_(budget), beside_(beside) {}

  size_t size() const { return size_; }
  size_t limit() const { return limit_; }

  // Where the next bytes go; empty only at the limit. The memory grows with what it holds, not with
  // what is expected: to at most `wanted` and 64 KiB, or the double. Throws as
  // MemoryBudget::Lease::grow. Bytes that were committed may move.
  std::span<std::byte> prepare(size_t wanted);
  void commit(size_t bytes) { size_ += bytes; }
  // Throws as prepare; the bytes must fit into the limit.
  void append(std::span<const std::byte> bytes);

  // What has been committed. The bytes are given back to the budget with the last copy.
  HttpBody take();

 private:
  struct Memory;

  void grow(size_t wanted);

  size_t aligned_at_, limit_;
  MemoryBudget* budget_;
  size_t beside_;
  std::shared_ptr<Memory> memory_;
  std::span<std::byte> room_;  // room in memory_, from the first byte on
  size_t size_ = 0;
};

// The encoding by a Content-Encoding header ("" is kIdentity); nullopt when it is not one of
// ours.
std::optional<ContentEncoding> encoding_from_name(std::string_view name);
// What to answer a client with that sent this Accept-Encoding header.
ContentEncoding choose_encoding(std::string_view accepted);

// Expands a compressed body step by step.
class HttpBodyExpander {
 public:
  // `limit`: of the expanded body.
  HttpBodyExpander(HttpBody compressed, ContentEncoding encoding, size_t aligned_at, size_t limit,
                   MemoryBudget* budget);
  ~HttpBodyExpander();

  enum class State { kMore, kComplete, kTooLarge };
  // Expands up to `bytes` more. Throws kInvalidArgument when the bytes are not what the encoding
  // says or end early, and as MemoryBudget::Lease::grow.
  State step(size_t bytes);
  // The body after kComplete.
  HttpBody take();

 private:
  struct Inflater;

  HttpBody compressed_;
  std::unique_ptr<Inflater> inflater_;
  HttpBodyBuffer expanded_;
};

// The sum of body and tensors.
size_t body_bytes(const HttpResponse& response);

// Compresses body and tensors into the body and names the encoding in a header, unless that would
// not make them smaller, or `budget` (null: none) has no memory for it.
void compress_response(HttpResponse& response, ContentEncoding encoding, MemoryBudget* budget);

}  // namespace emblem
