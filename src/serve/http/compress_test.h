// serve/http/compress_test.h - compressed bodies, made without the code under test.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

#include "serve/http/body.h"

namespace emblem {

inline std::string compressed(const std::string& text, HttpEncoding encoding) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, encoding == HttpEncoding::kGzip ? 31 : 15, 8,
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

}  // namespace emblem
