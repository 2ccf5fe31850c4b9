// embedding/cuda/key_space_memory.h - the memory of a KeySpace, which can grow.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/buffer.h"
#include "embedding/cuda/growable_memory.h"

namespace emblem::cuda {

struct KeySpace;
struct Bucket;
struct KeyCounters;

class KeySpaceMemory {
 public:
  // Capacity for `rows` rows, which can grow to `most_rows`.
  KeySpaceMemory(const Context& context, const std::string& name, int64_t rows, int64_t most_rows);
  ~KeySpaceMemory();

  KeySpace ref() const;
  int64_t rows() const { return rows_; }
  int64_t bytes() const;
  KeyCounters counters(const Context& context) const;  // waits

  // Grows the capacity to `rows`; keys stay. Synchronizes. Throws kOutOfMemory; nothing has changed
  // then.
  void grow(const Context& context, int64_t rows);
  void clear(const Context& context);

 private:
  Buffer<char> make_buckets(const Context& context, int64_t rows) const;

  std::string name_;
  int64_t rows_ = 0;
  GrowableMemory meta_, spare_rows_;
  Buffer<char> buckets_, counters_;
};

}  // namespace emblem::cuda
