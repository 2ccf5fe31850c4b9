// serve/http/compress_test.h - compressed bodies, made without the code under test, and expanded
// with it.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

#include "serve/http/message/body.h"

namespace emblem {

inline std::string compressed(const std::string& text, ContentEncoding encoding) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, encoding == ContentEncoding::kGzip ? 31 : 15, 8,
                         Z_DEFAULT_STRATEGY),
            Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline HttpBody http_body(std::string_view text) {
  HttpBodyBuffer buffer(0, text.size(), nullptr);
  buffer.append(std::as_bytes(std::span(text.data(), text.size())));
  return buffer.take();
}

// nullopt: it is larger than the limit. Throws what the expander throws.
inline std::optional<HttpBody> expanded(std::string_view packed, ContentEncoding encoding,
                                        size_t limit, size_t aligned_at = 0,
                                        MemoryBudget* budget = nullptr) {
  HttpBodyExpander expander(http_body(packed), encoding, aligned_at, limit, budget);
  for (;;) {
    const HttpBodyExpander::State state = expander.step(1000);
    if (state == HttpBodyExpander::State::kTooLarge) return std::nullopt;
    if (state == HttpBodyExpander::State::kComplete) return expander.take();
  }
}

}  // namespace emblem
