// serve/grpc/compression.h - compressed messages: "gzip", and "deflate" (zlib's format).
#pragma once

#include <optional>
#include <string_view>

#include "serve/grpc/framing.h"
#include "serve/protocol/content_encoding.h"

namespace emblem {

// "" is kIdentity; nullopt when it is not one of ours.
std::optional<ContentEncoding> grpc_encoding_from_name(std::string_view name);
// Whether a list such as "identity, deflate, gzip" has it.
bool accepts(std::string_view list, ContentEncoding encoding);

// Expands in steps, with memory from `budget` for what has been expanded alone. Throws kOutOfMemory
// as soon as the message exceeds `max_bytes`, kInvalidArgument when it is not what `encoding` says,
// kUnavailable when the budget is exhausted.
GrpcMessage expand(const GrpcMessage& compressed, ContentEncoding encoding, size_t max_bytes,
                   MemoryBudget* budget);

// Compresses a message with its prefix, unless that would not make it smaller.
void compress(std::string& framed, ContentEncoding encoding);

}  // namespace emblem
