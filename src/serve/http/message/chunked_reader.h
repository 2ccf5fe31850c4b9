// serve/http/message/chunked_reader.h - finds the body in the bytes of the transfer encoding
// "chunked".
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace emblem {

class HttpChunkedReader {
 public:
  // `max_extra_bytes`: of chunk extensions and trailers in all; both are checked and dropped.
  explicit HttpChunkedReader(size_t max_extra_bytes) : extra_left_(max_extra_bytes) {}

  struct Part {
    size_t used = 0;        // bytes of the input that are dealt with
    std::string_view body;  // the last of them, if any
  };
  // Reads up to the end of the next part of the body. Nothing used: more input is needed, or
  // is_done(). Throws kInvalidArgument for what is malformed.
  Part read(std::string_view input);

  bool is_done() const { return state_ == State::kDone; }
  // What is missing of the chunk that has begun.
  uint64_t chunk_left() const { return left_; }

 private:
  enum class State { kSize, kData, kDataEnd, kTrailer, kDone };

  size_t read_line(std::string_view input, std::string_view& line);
  void read_size(std::string_view line);

  State state_ = State::kSize;
  uint64_t left_ = 0;
  size_t extra_left_;
};

}  // namespace emblem
