// embedding/cpu/chunks.h - one parallel loop over ranges of many lists.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/threads/thread_pool.h"

namespace emblem {

// Cuts several lists into ranges of at most `grain` items, numbered consecutively. The ranges
// depend only on the lists. Its memory is reused.
class Chunks {
 public:
  explicit Chunks(int64_t grain) : grain_(grain) {}

  void clear() {
    total_ = 0;
    lists_.clear();
  }
  void add(int64_t items) {
    lists_.push_back({total_, items});
    total_ += (items + grain_ - 1) / grain_;
  }
  int64_t total() const { return total_; }

  // Calls body(chunk, list, begin, end) for every range, in any order.
  template <class Body>
  void run(const Context& context, Body&& body) const {
    parallel_for(context, total_, 1, [&](int64_t chunk, int64_t) {
      const auto after =
          std::upper_bound(lists_.begin(), lists_.end(), chunk,
                           [](int64_t c, const List& list) { return c < list.first; });
      const int64_t begin = (chunk - after[-1].first) * grain_;
      body(chunk, after - lists_.begin() - 1, begin, std::min(begin + grain_, after[-1].items));
    });
  }

 private:
  struct List {
    int64_t first;  // chunk
    int64_t items;
  };
  int64_t grain_;
  int64_t total_ = 0;
  std::vector<List> lists_;
};

}  // namespace emblem
