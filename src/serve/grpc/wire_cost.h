// serve/grpc/wire_cost.h - the memory that parsing a protobuf message takes, found out from its
// bytes before it is parsed: messages of empty sub-messages or of unknown fields take a hundred
// times their size on the wire.
#pragma once

#include <cstddef>
#include <span>

namespace google::protobuf {
class Descriptor;
}

namespace emblem {

// Limits of one message, with all that is in it.
struct WireLimits {
  size_t max_messages = size_t{1} << 16;  // sub-messages and entries of maps
  size_t max_unknown = 1024;              // fields that the type does not have
  int max_depth = 16;                     // depth of sub-messages and groups
};

// An upper bound of the bytes that parsing `wire` as a message of `type` allocates. Allocates
// nothing itself. Throws kInvalidArgument when a limit is exceeded, and for bytes that are not
// fields.
size_t parsed_bytes(std::span<const std::byte> wire, const google::protobuf::Descriptor& type,
                    const WireLimits& limits = {});

}  // namespace emblem
