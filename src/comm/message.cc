#include "comm/message.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace emblem {
namespace {

constexpr size_t kHeadBytes = 5;
constexpr size_t kMostBytes = size_t{4} << 20;         // a roster of 10,000 ranks fits
constexpr size_t kMostFirstBytes = size_t{320} << 10;  // of one who has not said who it is
constexpr size_t kMostTextBytes = size_t{64} << 10;    // a name or a line

[[noreturn]] void fail(const char* what) {
  throw Error(ErrorCode::kCorruption, cat("not a message of a rank: ", what));
}

class BodyWriter {
 public:
  template <class Number>
  requires std::is_integral_v<Number> BodyWriter& add(Number value) {
    body_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  BodyWriter& add(std::string_view text) {
    text = text.substr(0, kMostTextBytes);
    add(static_cast<uint32_t>(text.size()));
    body_ += text;
    return *this;
  }
  std::string message(MessageKind kind) const { return encode(kind, body_); }

 private:
  std::string body_;
};

class BodyReader {
 public:
  BodyReader(const Message& message, MessageKind expected) : rest_(message.body) {
    if (message.kind != expected) fail("unexpected kind");
  }
  template <class Number>
  void read(Number& value) {
    if (rest_.size() < sizeof(value)) fail("too short");
    std::memcpy(&value, rest_.data(), sizeof(value));
    rest_.remove_prefix(sizeof(value));
  }
  void read(std::string& text) {
    uint32_t size = 0;
    read(size);
    if (size > rest_.size() || size > kMostTextBytes) fail("too short");
    text = rest_.substr(0, size);
    rest_.remove_prefix(size);
  }
  void end() const {
    if (!rest_.empty()) fail("too long");
  }

 private:
  std::string_view rest_;
};

}  // namespace

std::string encode(MessageKind kind, std::string_view body) {
  std::string bytes(kHeadBytes, '\0');
  bytes[0] = static_cast<char>(kind);
  const auto size = static_cast<uint32_t>(body.size());
  std::memcpy(bytes.data() + 1, &size, sizeof(size));
  return bytes.append(body);
}

std::string encode(const Introduction& of) {
  return BodyWriter()
      .add(of.rank)
      .add(of.size)
      .add(of.process)
      .add(of.data_port)
      .add(of.host)
      .add(of.transport)
      .add(of.version)
      .add(of.configuration)
      .add(of.problem)
      .message(MessageKind::kHello);
}

Introduction decode_introduction(const Message& message) {
  BodyReader reader(message, MessageKind::kHello);
  Introduction of;
  reader.read(of.rank);
  reader.read(of.size);
  reader.read(of.process);
  reader.read(of.data_port);
  reader.read(of.host);
  reader.read(of.transport);
  reader.read(of.version);
  reader.read(of.configuration);
  reader.read(of.problem);
  reader.end();
  return of;
}

std::string encode(const Roster& roster) {
  BodyWriter writer;
  writer.add(roster.job).add(static_cast<uint32_t>(roster.ranks.size()));
  for (const RosterEntry& entry : roster.ranks)
    writer.add(entry.host).add(entry.local_rank).add(entry.ip).add(entry.data_port);
  return writer.message(MessageKind::kRoster);
}

Roster decode_roster(const Message& message) {
  BodyReader reader(message, MessageKind::kRoster);
  Roster roster;
  uint32_t count = 0;
  reader.read(roster.job);
  reader.read(count);
  for (uint32_t i = 0; i < count; ++i) {
    RosterEntry& entry = roster.ranks.emplace_back();
    reader.read(entry.host);
    reader.read(entry.local_rank);
    reader.read(entry.ip);
    reader.read(entry.data_port);
  }
  reader.end();
  return roster;
}

std::string encode(const DataHello& hello) {
  return BodyWriter().add(hello.job).add(hello.rank).message(MessageKind::kData);
}

DataHello decode_data_hello(const Message& message) {
  BodyReader reader(message, MessageKind::kData);
  DataHello hello;
  reader.read(hello.job);
  reader.read(hello.rank);
  reader.end();
  return hello;
}

std::string encode(const Failure& failure) {
  return BodyWriter().add(failure.rank).add(failure.line).message(MessageKind::kFailed);
}

Failure decode_failure(const Message& message) {
  BodyReader reader(message, MessageKind::kFailed);
  Failure failure;
  reader.read(failure.rank);
  reader.read(failure.line);
  reader.end();
  return failure;
}

MessageReader::MessageReader(Start start)
    : expects_magic_(start == Start::kMagic),
      most_bytes_(start == Start::kMagic ? kMostFirstBytes : kMostBytes) {}

uint32_t MessageReader::body_bytes() const {
  uint32_t size = 0;
  std::memcpy(&size, bytes_.data() + 1, sizeof(size));
  return size;
}

size_t MessageReader::wanted() const {
  if (expects_magic_) return kConnectionMagic.size() - bytes_.size();
  if (bytes_.size() < kHeadBytes) return kHeadBytes - bytes_.size();
  return kHeadBytes + body_bytes() - bytes_.size();
}

std::optional<Message> MessageReader::next() {
  if (expects_magic_) {
    const size_t compared = std::min(bytes_.size(), kConnectionMagic.size());
    if (bytes_.compare(0, compared, kConnectionMagic, 0, compared) != 0) fail("wrong first bytes");
    if (compared < kConnectionMagic.size()) return std::nullopt;
    bytes_.erase(0, compared);
    expects_magic_ = false;
  }
  if (bytes_.size() < kHeadBytes) return std::nullopt;
  const auto kind = static_cast<MessageKind>(bytes_[0]);
  if (kind < MessageKind::kHello || kind > MessageKind::kProof) fail("unknown kind");
  const uint32_t size = body_bytes();
  if (size > most_bytes_) fail("too long");
  if (bytes_.size() < kHeadBytes + size) return std::nullopt;
  Message message{kind, bytes_.substr(kHeadBytes, size)};
  bytes_.erase(0, kHeadBytes + size);
  return message;
}

}  // namespace emblem
