// shard/messages.h - memory for what ranks exchange: one block for each pair of (rank, item), the
// items of a rank one after the other.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/communicator.h"
#include "core/host_vector.h"

namespace emblem {

class Messages {
 public:
  // Sets the sizes of the blocks, in bytes: `bytes(rank, item)`.
  template <class Bytes>
  void lay_out(int ranks, int64_t items, Bytes&& bytes) {
    items_ = items;
    begins_.clear();
    int64_t next = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      for (int64_t item = 0; item < items; ++item) {
        begins_.push_back(next);
        next += bytes(rank, item);
      }
    }
    begins_.push_back(next);
    memory_.resize(static_cast<size_t>(next));
  }

  template <class T>
  T* at(int rank, int64_t item) {
    return reinterpret_cast<T*>(memory_.data() +
                                begins_[static_cast<size_t>(rank * items_ + item)]);
  }
  int64_t bytes(int rank, int64_t item) const {
    const auto block = static_cast<size_t>(rank * items_ + item);
    return begins_[block + 1] - begins_[block];
  }

  // What goes to, or comes from, each rank.
  std::vector<Piece> pieces() {
    std::vector<Piece> pieces;
    for (size_t first = 0; first + 1 < begins_.size(); first += static_cast<size_t>(items_)) {
      const int64_t begin = begins_[first], end = begins_[first + static_cast<size_t>(items_)];
      pieces.push_back({memory_.data() + begin, static_cast<size_t>(end - begin)});
    }
    return pieces;
  }

 private:
  int64_t items_ = 0;
  std::vector<int64_t> begins_;
  HostVector<char> memory_;
};

}  // namespace emblem
