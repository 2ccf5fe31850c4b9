// shard/messages.h - memory for what ranks exchange: one block for each pair of (rank, item), the
// items of a rank one after the other.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "comm/communicator.h"
#include "core/memory/host_vector.h"

namespace emblem {

// Where nothing is copied, pointers may be null.
inline void copy_bytes(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

class Messages {
 public:
  // Sets the sizes of the blocks, in bytes: `bytes(rank, item)`. Each begins at a multiple of its
  // elements' size if blocks of larger elements come first.
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
      begins_.push_back(next);
      next = (next + kAlignment - 1) / kAlignment * kAlignment;
    }
    memory_.resize(static_cast<size_t>(next));
  }

  char* data() { return memory_.data(); }
  int64_t items() const { return items_; }
  int64_t size() const { return static_cast<int64_t>(memory_.size()); }
  // Where a block begins, in bytes.
  int64_t begin(int rank, int64_t item) const { return begins_[block(rank, item)]; }
  int64_t bytes(int rank, int64_t item) const {
    return begins_[block(rank, item) + 1] - begins_[block(rank, item)];
  }
  template <class T>
  T* at(int rank, int64_t item) {
    return reinterpret_cast<T*>(memory_.data() + begin(rank, item));
  }

  // What goes to, or comes from, each rank; nothing for rank `self`, which reads its blocks where
  // they are.
  std::vector<Piece> pieces(int self) {
    std::vector<Piece> pieces;
    const auto ranks = static_cast<int>(begins_.size() / static_cast<size_t>(items_ + 1));
    for (int rank = 0; rank < ranks; ++rank) {
      const int64_t first = begin(rank, 0), bytes = begin(rank, items_) - first;
      pieces.push_back({memory_.data() + first, rank == self ? 0 : static_cast<size_t>(bytes)});
    }
    return pieces;
  }

 private:
  static constexpr int64_t kAlignment = 64;

  size_t block(int rank, int64_t item) const {
    return static_cast<size_t>(rank * (items_ + 1) + item);
  }

  int64_t items_ = 0;
  std::vector<int64_t> begins_;  // [ranks, items + 1]
  HostVector<char> memory_;
};

}  // namespace emblem
