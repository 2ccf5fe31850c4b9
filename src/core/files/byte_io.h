// core/files/byte_io.h - numbers, texts and arrays as bytes, for messages between processes.
// Little-endian, without padding. `Count` is the type of the lengths of texts and arrays.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "emblem/error.h"

namespace emblem {

// What is stored as the bytes that it has in memory.
template <class T>
concept PlainBytes = !std::is_same_v<T, bool> && std::is_trivially_copyable_v<T> &&
                     (std::is_arithmetic_v<T> || std::has_unique_object_representations_v<T>);

class ByteWriter {
 public:
  template <PlainBytes T>
  ByteWriter& add(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  // The number of values, then the values.
  template <class Count = uint64_t, PlainBytes T>
  ByteWriter& add_all(std::span<const T> values) {
    add(static_cast<Count>(values.size()));
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
    return *this;
  }
  template <class Count = uint64_t, PlainBytes T>
  ByteWriter& add_all(const std::vector<T>& values) {
    return add_all<Count>(std::span<const T>(values));
  }
  template <class Count = uint64_t>
  ByteWriter& add_text(std::string_view text) {
    return add_all<Count>(std::span(text));
  }
  // Without their number.
  ByteWriter& add_bytes(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }

  const std::string& bytes() const& { return bytes_; }
  std::string&& bytes() && { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads what a ByteWriter has written. Throws where the bytes end too early: they are checked
// before memory is taken for them.
class ByteReader {
 public:
  // `what` the bytes are, for messages; both outlive this. Errors have this code.
  ByteReader(std::string_view bytes, const char* what, ErrorCode code = ErrorCode::kCorruption)
      : rest_(bytes), what_(what), code_(code) {}

  template <PlainBytes T>
  void read(T& value) {
    std::memcpy(&value, take(sizeof(value)), sizeof(value));
  }
  template <PlainBytes T>
  T read() {
    T value;
    read(value);
    return value;
  }
  template <class Count = uint64_t, PlainBytes T>
  void read_all(std::vector<T>& values) {
    values.resize(read_count<Count>(sizeof(T)));
    if (!values.empty())
      std::memcpy(values.data(), take(values.size() * sizeof(T)), values.size() * sizeof(T));
  }
  // A part of the bytes themselves.
  template <class Count = uint64_t>
  std::string_view read_text(size_t most = SIZE_MAX) {
    const size_t size = read_count<Count>(1, most);
    return {take(size), size};
  }
  // The number of items that follow, each of at least `least_bytes` (above 0).
  template <class Count = uint64_t>
  size_t read_count(size_t least_bytes, size_t most = SIZE_MAX) {
    const auto count = read<Count>();
    if (count > most) fail(cat("a count of ", count, "; at most ", most, " are possible"));
    if (count > rest_.size() / least_bytes) fail("too short");
    return static_cast<size_t>(count);
  }
  size_t left() const { return rest_.size(); }
  // Nothing may follow.
  void end() const {
    if (!rest_.empty()) fail("too long");
  }
  [[noreturn]] void fail(std::string_view problem) const {
    throw Error(code_, cat("not ", what_, ": ", problem));
  }

 private:
  const char* take(size_t bytes) {
    if (bytes > rest_.size()) fail("too short");
    const char* const at = rest_.data();
    rest_.remove_prefix(bytes);
    return at;
  }

  std::string_view rest_;
  const char* what_;
  ErrorCode code_;
};

}  // namespace emblem
