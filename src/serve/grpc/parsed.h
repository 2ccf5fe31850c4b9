// serve/grpc/parsed.h - protobuf messages with what they take of the memory budget.
#pragma once

#include <span>

#include "emblem/error.h"
#include "serve/grpc/wire_cost.h"
#include "serve/protocol/memory_budget.h"

namespace emblem {

template <class Message>
struct Parsed {
  MemoryBudget::Lease lease;
  Message message;
};

// Takes the memory that the message needs before it is parsed. Throws kInvalidArgument for what is
// not such a message or exceeds WireLimits, kUnavailable when the budget is exhausted.
template <class Message>
void parse(std::span<const std::byte> wire, Parsed<Message>& to) {
  to.lease.grow(parsed_bytes(wire, *Message::descriptor()));
  EMBLEM_REQUIRE(to.message.ParseFromArray(wire.data(), static_cast<int>(wire.size())),
                 "the message is not a ", Message::descriptor()->full_name());
}

}  // namespace emblem
