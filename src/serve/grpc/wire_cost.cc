#include "serve/grpc/wire_cost.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <string>

#include "emblem/error.h"

namespace emblem {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::MessageFactory;

using Bytes = std::span<const std::byte>;

enum class WireType : uint32_t { kVarint, kFixed64, kLength, kGroup, kEndGroup, kFixed32 };

constexpr size_t kBlock = 16;  // what the heap adds to each block
// Arrays double when they are full: the new one and the old one are there for a moment.
constexpr size_t kGrowing = 3;
constexpr size_t kUnknownField = 16 * kGrowing;
constexpr size_t kEntryOfMap = 256;  // with its place in the table of its map

// Size of a string on the heap with its object.
size_t string_bytes(size_t length) {
  const size_t held = sizeof(std::string) + kBlock;
  return length < sizeof(std::string) / 2 ? held : held + length + 1 + kBlock;
}

size_t object_bytes(const Descriptor& type) {
  // Entries of maps have no prototype that could be asked.
  if (type.options().map_entry()) return kEntryOfMap;
  return MessageFactory::generated_factory()->GetPrototype(&type)->SpaceUsedLong() + kBlock;
}

WireType wire_type_of(const FieldDescriptor& field) {
  switch (field.type()) {
    case FieldDescriptor::TYPE_DOUBLE:
    case FieldDescriptor::TYPE_FIXED64:
    case FieldDescriptor::TYPE_SFIXED64:
      return WireType::kFixed64;
    case FieldDescriptor::TYPE_FLOAT:
    case FieldDescriptor::TYPE_FIXED32:
    case FieldDescriptor::TYPE_SFIXED32:
      return WireType::kFixed32;
    case FieldDescriptor::TYPE_STRING:
    case FieldDescriptor::TYPE_BYTES:
    case FieldDescriptor::TYPE_MESSAGE:
      return WireType::kLength;
    case FieldDescriptor::TYPE_GROUP:
      return WireType::kGroup;
    default:
      return WireType::kVarint;
  }
}

// Size of a number in memory.
size_t number_bytes(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT64:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return 8;
    case FieldDescriptor::CPPTYPE_BOOL:
      return 1;
    default:
      return 4;
  }
}

class Scanner {
 public:
  Scanner(const Descriptor& type, const WireLimits& limits) : type_(type), limits_(limits) {}

  // Adds up the fields of a message without its object.
  size_t message(Bytes wire, const Descriptor& type, int depth) {
    require_depth(depth);
    size_t bytes = 0;
    while (!wire.empty()) {
      const Tag tag = take_tag(wire);
      const FieldDescriptor* field = type.FindFieldByNumber(static_cast<int>(tag.number));
      bytes += field == nullptr ? unknown(wire, tag, depth) : known(wire, tag, *field, depth);
    }
    return bytes;
  }

 private:
  struct Tag {
    uint32_t number;
    WireType type;
  };

  size_t known(Bytes& wire, const Tag& tag, const FieldDescriptor& field, int depth) {
    const WireType expected = wire_type_of(field);
    const bool is_packed = field.is_packable() && tag.type == WireType::kLength;
    if (tag.type != expected && !is_packed) return unknown(wire, tag, depth);
    if (expected != WireType::kLength && !is_packed) {
      skip(wire, tag, depth);
      return field.is_repeated() ? number_bytes(field) * kGrowing : 0;
    }
    const Bytes content = take_content(wire);
    if (is_packed) return packed(content, field, expected);
    const size_t pointer = field.is_repeated() ? sizeof(void*) * kGrowing : 0;
    const Descriptor* type = field.message_type();
    const bool is_value = type == nullptr && !(field.is_repeated() && depth == 0);  // no raw tensor
    if (!is_value)
      EMBLEM_REQUIRE(++messages_ <= limits_.max_messages, "the ", type_.name(), " has more than ",
                     limits_.max_messages, " parts (tensors, parameters, ...)");
    if (type == nullptr) return pointer + string_bytes(content.size());
    return pointer + object_bytes(*type) + message(content, *type, depth + 1);
  }

  size_t packed(Bytes content, const FieldDescriptor& field, WireType expected) const {
    if (expected != WireType::kVarint) return content.size() + kBlock;
    const auto ends_number = [](std::byte byte) {
      return (byte & std::byte{0x80}) == std::byte{0};
    };
    const auto numbers = std::count_if(content.begin(), content.end(), ends_number);
    return static_cast<size_t>(numbers) * number_bytes(field) * kGrowing;
  }

  size_t unknown(Bytes& wire, const Tag& tag, int depth) {
    EMBLEM_REQUIRE(++unknown_ <= limits_.max_unknown, "the ", type_.name(), " has more than ",
                   limits_.max_unknown, " fields that are unknown");
    if (tag.type != WireType::kLength) return kUnknownField + skip(wire, tag, depth);
    return kUnknownField + string_bytes(take_content(wire).size());
  }

  // Takes the value off the front; what unknown fields in a group take.
  size_t skip(Bytes& wire, const Tag& tag, int depth) {
    switch (tag.type) {
      case WireType::kVarint:
        take_varint(wire);
        return 0;
      case WireType::kFixed64:
        take(wire, 8);
        return 0;
      case WireType::kFixed32:
        take(wire, 4);
        return 0;
      case WireType::kGroup:
        return group(wire, tag.number, depth + 1);
      default:
        refuse("a field has no known wire type");
    }
  }

  size_t group(Bytes& wire, uint32_t number, int depth) {
    require_depth(depth);
    size_t bytes = kUnknownField + kBlock;
    for (;;) {
      const Tag tag = take_tag(wire);
      if (tag.type == WireType::kEndGroup && tag.number == number) return bytes;
      bytes += unknown(wire, tag, depth);
    }
  }

  Tag take_tag(Bytes& wire) const {
    const uint64_t tag = take_varint(wire);
    if (tag >> 3 == 0 || tag >> 32 != 0) refuse("a field has no number");
    return {static_cast<uint32_t>(tag >> 3), static_cast<WireType>(tag & 7)};
  }

  uint64_t take_varint(Bytes& wire) const {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = std::to_integer<uint64_t>(take(wire, 1)[0]);
      value |= (byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    refuse("a number has more than 64 bits");
  }

  Bytes take_content(Bytes& wire) const { return take(wire, take_varint(wire)); }

  Bytes take(Bytes& wire, uint64_t bytes) const {
    if (bytes > wire.size()) refuse("it is cut off");
    const Bytes taken = wire.first(bytes);
    wire = wire.subspan(bytes);
    return taken;
  }

  void require_depth(int depth) const {
    EMBLEM_REQUIRE(depth <= limits_.max_depth, "the ", type_.name(), " is nested deeper than ",
                   limits_.max_depth);
  }

  [[noreturn]] void refuse(const char* why) const {
    throw Error(ErrorCode::kInvalidArgument,
                cat("the message is not a ", type_.full_name(), ": ", why));
  }

  const Descriptor& type_;
  const WireLimits limits_;
  size_t messages_ = 0, unknown_ = 0;
};

}  // namespace

size_t parsed_bytes(Bytes wire, const Descriptor& type, const WireLimits& limits) {
  return object_bytes(type) + Scanner(type, limits).message(wire, type, 0);
}

}  // namespace emblem
