// data/format/columnar/orc_channel.h - what a process and its reader of ORC files send each other,
// over a socket between them. Internal to data/format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace emblem {

enum class OrcMessageKind : int64_t {
  kReady = 0x656d626f72633031,  // to the process, once: the reader has this protocol
  // Requests to the reader about a file of `first` bytes: rows and schema; columns of a stripe, as
  // `second` bytes that follow say.
  kLayout,
  kStripe,
  kRead,     // request to the process: `second` bytes of the file from `first` on
  kBytes,    // answer to kRead or kLayout: `first` bytes follow
  kColumns,  // answer to kStripe: a stream of Arrow IPC follows
  kProblem   // answer to any: a text of `first` bytes follows
};

struct OrcMessage {
  OrcMessageKind kind{};
  int64_t first = 0, second = 0;
};

// One end of the socket; does not own it. Used by one thread.
class OrcChannel {
 public:
  explicit OrcChannel(int socket) : socket_(socket) {}

  // False when the other side is gone.
  [[nodiscard]] bool send(const void* bytes, size_t count);
  [[nodiscard]] bool receive(void* bytes, size_t count);

  [[nodiscard]] bool send(const OrcMessage& message) { return send(&message, sizeof(message)); }
  [[nodiscard]] bool receive(OrcMessage& message) { return receive(&message, sizeof(message)); }
  // A message of `kind` with `text`, its size as `first`.
  [[nodiscard]] bool send(OrcMessageKind kind, const std::string& text) {
    return send({kind, static_cast<int64_t>(text.size())}) && send(text.data(), text.size());
  }
  [[nodiscard]] bool receive(std::string& text, int64_t count) {
    text.resize(static_cast<size_t>(count));
    return receive(text.data(), text.size());
  }

 private:
  int socket_;
};

}  // namespace emblem
