#include "train/report/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/system/host_name.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr size_t kFlushBytes = 16 << 10;

double now() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since).count();
}

template <class T>
void put_fixed(std::string& out, T value) {
  static_assert(std::endian::native == std::endian::little);
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// ---- protobuf, by hand: the few fields of TensorFlow's Event message that scalars need ----

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void put_tag(std::string& out, uint32_t field, WireType type) {
  put_varint(out, field << 3 | type);
}

void put_bytes(std::string& out, uint32_t field, std::string_view bytes) {
  put_tag(out, field, kBytes);
  put_varint(out, bytes.size());
  out.append(bytes);
}

std::string event_at(double wall_time, int64_t step) {
  std::string event;
  put_tag(event, 1, kFixed64);
  put_fixed(event, wall_time);
  put_tag(event, 2, kVarint);
  put_varint(event, static_cast<uint64_t>(step));
  return event;
}

std::string version_event() {
  std::string event = event_at(now(), 0);
  put_bytes(event, 3, "brain.Event:2");
  return event;
}

std::string scalar_event(std::string_view tag, int64_t step, float value, double wall_time) {
  std::string entry;  // Summary.Value
  put_bytes(entry, 1, tag);
  put_tag(entry, 2, kFixed32);
  put_fixed(entry, value);
  std::string summary;
  put_bytes(summary, 1, entry);
  std::string event = event_at(wall_time, step);
  put_bytes(event, 5, summary);
  return event;
}

std::string session_start_event(int64_t step) {
  std::string session;  // SessionLog
  put_tag(session, 1, kVarint);
  put_varint(session, 1);  // START
  std::string event = event_at(now(), step);
  put_bytes(event, 7, session);
  return event;
}

std::string new_file_name() {
  return cat("events.out.tfevents.", static_cast<int64_t>(now()), ".", host_name(), ".",
             ::getpid());
}

constexpr std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
    table[byte] = crc;
  }
  return table;
}

}  // namespace

namespace detail {

uint32_t crc32c(std::string_view bytes) {
  static constexpr auto kTable = make_crc_table();
  uint32_t crc = 0xffffffffu;
  for (const char byte : bytes)
    crc = crc >> 8 ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~crc;
}

uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8u;
}

}  // namespace detail

EventFile::EventFile(const std::string& folder) {
  std::error_code ignored;  // the open below reports what matters
  std::filesystem::create_directories(folder, ignored);
  const std::string name = folder + "/" + new_file_name();
  // Two runs within a second must not share a file; readers take files in the order of their names.
  for (int number = 0; descriptor_ < 0; ++number) {
    path_ = cat(name, ".", number);
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    if (descriptor_ < 0 && errno != EEXIST) {
      throw Error(ErrorCode::kUnavailable,
                  cat("cannot make the event file ", path_, ": ", std::strerror(errno)));
    }
  }
  add_event(version_event());
  flush();
}

EventFile::~EventFile() {
  try {
    flush();
  } catch (const Error&) {
    // A destructor cannot report; curves are not worth ending a run for.
  }
  ::close(descriptor_);
}

void EventFile::add_scalar(std::string_view tag, int64_t step, float value) {
  add_scalar(tag, step, value, now());
}

void EventFile::add_scalar(std::string_view tag, int64_t step, float value, double wall_time) {
  add_event(scalar_event(tag, step, value, wall_time));
}

void EventFile::restart_at(int64_t step) { add_event(session_start_event(step)); }

void EventFile::add_event(std::string_view event) {
  std::string length;
  put_fixed(length, static_cast<uint64_t>(event.size()));
  buffer_ += length;
  put_fixed(buffer_, detail::masked_crc32c(length));
  buffer_ += event;
  put_fixed(buffer_, detail::masked_crc32c(event));
  if (buffer_.size() >= kFlushBytes) flush();
}

void EventFile::flush() {
  // What cannot be written is dropped, so that a full disk does not make memory grow.
  const std::string bytes = std::exchange(buffer_, {});
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t taken = ::write(descriptor_, bytes.data() + at, bytes.size() - at);
    if (taken < 0 && errno == EINTR) continue;
    if (taken < 0) {
      throw Error(ErrorCode::kUnavailable,
                  cat("cannot write the event file ", path_, ": ", std::strerror(errno)));
    }
    at += static_cast<size_t>(taken);
  }
}

}  // namespace emblem
