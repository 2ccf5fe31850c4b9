// comm/bytes.h - strings of any size between ranks, in host memory. Collectives: every rank calls
// them, and what they throw is what Communicator's collectives throw.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"

namespace emblem {

// Returns on rank 0 what every rank has, by rank; nothing on the others.
std::vector<std::string> gather_bytes(Communicator& ranks, std::string_view mine);

// `bytes` of rank `from` becomes that of all ranks.
void broadcast_bytes(Communicator& ranks, std::string& bytes, int from = 0);

// What rank 0 has.
template <class T>
T value_of_rank_0(Communicator& ranks, T value) {
  ranks.broadcast(Context{}, {&value, sizeof(value)}, 0);
  return value;
}

}  // namespace emblem
