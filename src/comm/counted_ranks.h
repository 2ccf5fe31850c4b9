// comm/counted_ranks.h - a communicator that counts the bytes that this rank sends.
#pragma once

#include <cstdint>

#include "comm/forwarded_ranks.h"

namespace emblem {

class CountedRanks : public ForwardedRanks {
 public:
  explicit CountedRanks(Communicator& inner) : ForwardedRanks(inner) {}

  bool can_use_peer_memory(const Context& context) override {
    return inner_.can_use_peer_memory(context);
  }
  // Nothing is sent.
  void use_peer_memory(const Context& context, std::span<const Piece> own,
                       const UsePeerMemory& use) override {
    inner_.use_peer_memory(context, own, use);
  }

  // Bytes since the last call: to other ranks of its host, and to ranks of other hosts.
  struct Bytes {
    int64_t inside = 0, between = 0;
  };
  Bytes take_bytes() { return std::exchange(bytes_, {}); }

 protected:
  void do_exchange(const Context& context, std::span<const Piece> send,
                   std::span<const Piece> receive) override {
    const std::string& own = hosts()[static_cast<size_t>(rank())].name;
    for (size_t r = 0; r < send.size(); ++r) {
      if (static_cast<int>(r) == rank()) continue;
      (hosts()[r].name == own ? bytes_.inside : bytes_.between) +=
          static_cast<int64_t>(send[r].bytes);
    }
    inner_.exchange(context, send, receive);
  }

 private:
  Bytes bytes_;
};

}  // namespace emblem
