// serve/grpc/compression.h - compressed messages: "gzip", and "deflate" (zlib's format).
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string_view>

#include "serve/grpc/framing.h"
#include "serve/protocol/encoding/content_encoding.h"

namespace emblem {

// "" is kIdentity; nullopt when it is not one of ours.
std::optional<ContentEncoding> grpc_encoding_from_name(std::string_view name);
// Whether a list such as "identity, deflate, gzip" has it.
bool accepts(std::string_view list, ContentEncoding encoding);

// A message that has arrived, on its way to being whole: expanded step by step, if it is
// compressed, with memory from `budget` for what has been expanded alone.
class GrpcDecoding {
 public:
  GrpcDecoding(GrpcMessage message, ContentEncoding encoding, size_t max_bytes,
               MemoryBudget* budget);
  GrpcDecoding(GrpcDecoding&&) noexcept;
  GrpcDecoding& operator=(GrpcDecoding&&) noexcept;
  ~GrpcDecoding();

  // Whether it takes so long that other connections should not wait for it.
  bool is_long() const;
  // Expands a little more; true: there is more to do. What goes wrong is thrown by take().
  bool step() noexcept;
  // The whole message, once, after what is left of its steps. Throws kTooLarge when it has more
  // than `max_bytes`, kInvalidArgument when it is not what `encoding` says, kUnavailable when the
  // budget is exhausted.
  GrpcMessage take();

 private:
  struct Inflater;

  void expand_some();

  GrpcMessage message_;
  ContentEncoding encoding_;
  size_t max_bytes_;
  GrpcMessage expanded_;
  std::unique_ptr<Inflater> inflater_;  // while it expands
  std::exception_ptr problem_;
};

// Compresses a message with its prefix, unless that would not make it smaller.
void compress(std::string& framed, ContentEncoding encoding);

}  // namespace emblem
