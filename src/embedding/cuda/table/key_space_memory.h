// embedding/cuda/table/key_space_memory.h - the memory of a KeySpace, which can grow.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/memory/buffer.h"
#include "embedding/bins.h"
#include "embedding/cuda/table/growable_memory.h"

namespace emblem::cuda {

struct KeySpace;
struct Bucket;
struct KeyCounters;

// The rows of several bins (embedding/bins.h).
struct BinnedRows {
  HeldBins bins;
  bool in_pages = false;  // as many as each needs; else equal shares, which do not grow
};

class KeySpaceMemory {
 public:
  // Capacity for `rows` rows, which can grow to `most_rows`.
  KeySpaceMemory(const Context& context, const std::string& name, int64_t rows, int64_t most_rows,
                 const BinnedRows& binned = {});
  ~KeySpaceMemory();

  KeySpace ref() const;
  int64_t rows() const { return rows_; }
  bool in_pages() const { return binned_.in_pages && binned_.bins.count > 1; }
  int64_t bytes() const;

  // These wait.
  std::vector<KeyCounters> counters(const Context& context) const;  // by bin
  int64_t size(const Context& context) const;                       // keys that have a row
  int64_t rows_end(const Context& context) const;                   // KeySpace::rows_end
  // Rows with which `keys` more keys surely fit, whatever their bins.
  int64_t rows_with(const Context& context, int64_t keys) const;

  // Grows the capacity to at least `rows`; keys stay. Synchronizes. Throws kOutOfMemory; nothing
  // has changed then.
  void grow(const Context& context, int64_t rows);
  void clear(const Context& context);

 private:
  Buffer<char> make_buckets(const Context& context, int64_t rows) const;
  int64_t page_rows() const;
  void free_rows(const Context& context, int64_t begin, int64_t end);

  std::string name_;
  BinnedRows binned_;
  int64_t rows_ = 0;
  GrowableMemory meta_, spare_rows_;
  std::unique_ptr<GrowableMemory> pages_;
  Buffer<char> buckets_, counters_;
};

}  // namespace emblem::cuda
