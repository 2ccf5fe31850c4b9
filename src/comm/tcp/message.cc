#include "comm/tcp/message.h"

#include <algorithm>
#include <cstring>

#include "core/files/byte_io.h"

namespace emblem {
namespace {

constexpr size_t kHeadBytes = 5;
constexpr size_t kMostBytes = size_t{4} << 20;  // a roster of 10,000 ranks fits
// Limit for a peer that has not identified itself.
constexpr size_t kMostFirstBytes = size_t{80} << 10;
constexpr size_t kMostTextBytes = size_t{16} << 10;  // a name or a line

constexpr const char* kWhat = "a message of a rank";

[[noreturn]] void fail(const char* problem) { ByteReader("", kWhat).fail(problem); }

ByteWriter& add_text(ByteWriter& writer, std::string_view text) {
  return writer.add_text<uint32_t>(text.substr(0, kMostTextBytes));
}

void read_text(ByteReader& reader, std::string& text) {
  text = reader.read_text<uint32_t>(kMostTextBytes);
}

ByteReader body_of(const Message& message, MessageKind expected) {
  if (message.kind != expected) fail("unexpected kind");
  return {message.body, kWhat};
}

}  // namespace

std::string encode(MessageKind kind, std::string_view body) {
  std::string bytes(kHeadBytes, '\0');
  bytes[0] = static_cast<char>(kind);
  const auto size = static_cast<uint32_t>(body.size());
  std::memcpy(bytes.data() + 1, &size, sizeof(size));
  return bytes.append(body);
}

std::string encode(const Introduction& of) {
  ByteWriter writer;
  writer.add(of.rank).add(of.size).add(of.process).add(of.data_port);
  for (const std::string& text : {of.host, of.transport, of.version}) add_text(writer, text);
  writer.add(of.configuration);
  add_text(writer, of.problem);
  return encode(MessageKind::kHello, writer.bytes());
}

Introduction decode_introduction(const Message& message) {
  ByteReader reader = body_of(message, MessageKind::kHello);
  Introduction of;
  reader.read(of.rank);
  reader.read(of.size);
  reader.read(of.process);
  reader.read(of.data_port);
  for (std::string* text : {&of.host, &of.transport, &of.version}) read_text(reader, *text);
  reader.read(of.configuration);
  read_text(reader, of.problem);
  reader.end();
  return of;
}

std::string encode(const Roster& roster) {
  ByteWriter writer;
  writer.add(roster.job).add(static_cast<uint32_t>(roster.ranks.size()));
  for (const RosterEntry& entry : roster.ranks) {
    add_text(writer, entry.host).add(entry.local_rank);
    add_text(writer, entry.ip).add(entry.data_port);
  }
  return encode(MessageKind::kRoster, writer.bytes());
}

Roster decode_roster(const Message& message) {
  ByteReader reader = body_of(message, MessageKind::kRoster);
  Roster roster;
  reader.read(roster.job);
  for (auto left = reader.read<uint32_t>(); left > 0; --left) {
    RosterEntry& entry = roster.ranks.emplace_back();
    read_text(reader, entry.host);
    reader.read(entry.local_rank);
    read_text(reader, entry.ip);
    reader.read(entry.data_port);
  }
  reader.end();
  return roster;
}

std::string encode(const DataHello& hello) {
  return encode(MessageKind::kData, ByteWriter().add(hello.job).add(hello.rank).bytes());
}

DataHello decode_data_hello(const Message& message) {
  ByteReader reader = body_of(message, MessageKind::kData);
  DataHello hello;
  reader.read(hello.job);
  reader.read(hello.rank);
  reader.end();
  return hello;
}

std::string encode(const Failure& failure) {
  ByteWriter writer;
  return encode(MessageKind::kFailed, add_text(writer.add(failure.rank), failure.line).bytes());
}

Failure decode_failure(const Message& message) {
  ByteReader reader = body_of(message, MessageKind::kFailed);
  Failure failure;
  reader.read(failure.rank);
  read_text(reader, failure.line);
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
