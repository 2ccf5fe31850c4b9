// bench/train/largest_batch.h - the largest batch that fits into memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace emblem {

struct LargestBatch {
  int64_t batch = 0;                // 0: not even one row fits
  bool limited = false;             // by the limit of the search, not by memory
  std::vector<std::string> failed;  // a line for each try that did not fit
};

// Doubles the batch from `first` on until one does not fit or `limit` is reached, then halves the
// gap until it is 1/32 of the batch or less. attempt(batch) trains with the batch; it throws Error
// (kOutOfMemory) or std::bad_alloc where that does not fit. Other errors end the search.
LargestBatch find_largest_batch(int64_t first, int64_t limit,
                                const std::function<void(int64_t)>& attempt);

// What attempt threw, as one line; rethrows what has nothing to do with memory. Call in a handler.
std::string out_of_memory_line();

}  // namespace emblem
