// serve/http/body.h - memory for the bodies of requests, and their compression.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "serve/http/message.h"

namespace emblem {

// Bytes that are not set before they are read into. Copies share them.
struct HttpBody {
  std::shared_ptr<std::byte[]> memory;
  std::span<std::byte> bytes;
};

// Places byte `aligned_at` of the body at a multiple of 64 in memory: where the first binary tensor
// begins.
HttpBody allocate_body(size_t bytes, size_t aligned_at);

enum class HttpEncoding { kIdentity, kGzip, kDeflate };

// Of a Content-Encoding header ("" is kIdentity); nullopt when it is not one of ours.
std::optional<HttpEncoding> encoding_from_name(std::string_view name);
const char* name_of(HttpEncoding encoding);
// What to answer a client with that sent this Accept-Encoding header.
HttpEncoding choose_encoding(std::string_view accepted);

// Throws kInvalidArgument when the bytes are not what `encoding` says or end early; nullopt when
// they expand to more than `limit`.
std::optional<HttpBody> expand_body(std::span<const std::byte> bytes, HttpEncoding encoding,
                                    size_t limit, size_t aligned_at);

// Compresses body and tensors into the body and names the encoding in a header, unless that would
// not make them smaller.
void compress_response(HttpResponse& response, HttpEncoding encoding);

}  // namespace emblem
