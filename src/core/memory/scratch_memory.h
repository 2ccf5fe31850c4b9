// core/memory/scratch_memory.h - memory that is needed again and again for a short time, in sizes
// that change: kept between uses, and freed when it is much more than these need.
#pragma once

#include <algorithm>
#include <cstddef>

#include "core/memory/host_vector.h"

namespace emblem {

// Used by one thread.
template <class T>
class ScratchMemory {
 public:
  // Uses within which memory must have been needed to be kept.
  static constexpr int kUses = 4096;

  // Uninitialized memory for `count` elements, valid until the next call.
  T* take(size_t count) {
    most_ = std::max(most_, count);
    if (count > memory_.size()) {
      replace(std::max(count, memory_.size() + memory_.size() / 2));
    } else if (uses_ >= kUses) {
      if (memory_.size() / 2 > most_) replace(most_);
      uses_ = 0;
      most_ = count;
    }
    ++uses_;
    return memory_.data();
  }

  size_t size() const { return memory_.size(); }  // elements that it holds now

 private:
  void replace(size_t count) {
    memory_ = {};  // first, so that both are not there at the same time
    memory_.resize(count);
  }

  HostVector<T> memory_;
  size_t most_ = 0;  // elements that were needed since it was last looked at
  int uses_ = 0;
};

}  // namespace emblem
