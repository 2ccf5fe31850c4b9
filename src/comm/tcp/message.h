// comm/tcp/message.h - messages between ranks apart from data: introductions, heartbeats,
// reasons of failures. Little-endian; a message is its kind (1 byte), the size of its body (4
// bytes), its body.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emblem/error.h"

namespace emblem {

// Every connection begins with these bytes. The number changes with the protocol.
inline constexpr std::string_view kConnectionMagic = "EMBLEM.2";

enum class MessageKind : uint8_t {
  kHello = 1,  // to rank 0: Introduction
  kRoster,     // from rank 0: Roster
  kRefused,    // from rank 0: one line
  kHeartbeat,
  kFailed,  // Failure
  kGoodbye,
  kData,       // the first message of a data connection: DataHello
  kChallenge,  // comm/tcp/secret.h
  kProof
};

struct Message {
  MessageKind kind = MessageKind::kHeartbeat;
  std::string body;
};

// How a rank presents itself to rank 0.
struct Introduction {
  int32_t rank = 0, size = 0;
  int64_t process = 0;
  uint16_t data_port = 0;  // where it accepts data connections; 0: nowhere
  std::string host;
  std::string transport;
  std::string version;         // version of the program
  uint64_t configuration = 0;  // a hash
  std::string problem;         // why it cannot take part; empty: it can

  bool operator==(const Introduction&) const = default;
};

struct RosterEntry {
  std::string host;
  int32_t local_rank = 0;
  std::string ip;
  uint16_t data_port = 0;

  bool operator==(const RosterEntry&) const = default;
};
struct Roster {
  uint64_t job = 0;  // random: data connections of other jobs are refused
  std::vector<RosterEntry> ranks;

  bool operator==(const Roster&) const = default;
};

struct DataHello {
  uint64_t job = 0;
  int32_t rank = 0;
};

struct Failure {
  int32_t rank = 0;
  std::string line;  // begins with the rank's name
};

std::string encode(MessageKind kind, std::string_view body = "");
std::string encode(const Introduction& introduction);
std::string encode(const Roster& roster);
std::string encode(const DataHello& hello);
std::string encode(const Failure& failure);

// Throw kCorruption.
Introduction decode_introduction(const Message& message);
Roster decode_roster(const Message& message);
DataHello decode_data_hello(const Message& message);
Failure decode_failure(const Message& message);

// Cuts a stream of bytes into messages.
class MessageReader {
 public:
  enum class Start { kMagic, kMessage };
  explicit MessageReader(Start start);

  // How many bytes to add before next() can say more: whoever reads no more than these does not
  // take bytes that follow the message.
  size_t wanted() const;
  void add(std::string_view bytes) { bytes_ += bytes; }
  // Throws kCorruption when the bytes are not what a rank sends.
  std::optional<Message> next();

 private:
  uint32_t body_bytes() const;  // bytes of the message whose head has been added

  bool expects_magic_;
  size_t most_bytes_;  // limit of a body
  std::string bytes_;
};

}  // namespace emblem
