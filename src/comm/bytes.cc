#include "comm/bytes.h"

#include <cstdint>

namespace emblem {

std::vector<std::string> gather_bytes(Communicator& ranks, std::string_view mine) {
  const auto count = static_cast<size_t>(ranks.size());
  uint64_t size = mine.size();
  std::vector<uint64_t> sizes(count);
  ranks.gather_all(Context{}, {&size, sizeof(size)}, {sizes.data(), count * sizeof(size)});

  std::vector<Piece> send(count), receive(count);
  send[0] = {const_cast<char*>(mine.data()), mine.size()};  // exchange does not change it
  std::vector<std::string> all;
  if (ranks.rank() == 0) {
    all.resize(count);
    for (size_t r = 0; r < count; ++r) {
      all[r].resize(sizes[r]);
      receive[r] = {all[r].data(), all[r].size()};
    }
  }
  ranks.exchange(Context{}, send, receive);
  return all;
}

void broadcast_bytes(Communicator& ranks, std::string& bytes, int from) {
  uint64_t size = bytes.size();
  ranks.broadcast(Context{}, {&size, sizeof(size)}, from);
  bytes.resize(size);
  ranks.broadcast(Context{}, {bytes.data(), bytes.size()}, from);
}

}  // namespace emblem
