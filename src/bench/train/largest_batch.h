// bench/train/largest_batch.h - the largest batch that fits into memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace emblem {

struct LargestBatch {
  int64_t batch = 0;                // 0: not even one row fits
  bool limited = false;             // the limit of the search was reached, not that of memory
  std::vector<std::string> failed;  // one line per attempt that did not fit
};

// Doubles the batch from `first` on until one does not fit or `limit` is reached, then bisects
// until the gap is 1/32 of the batch or less. attempt(batch) trains with the batch and throws Error
// (kOutOfMemory) or std::bad_alloc if that does not fit. Other errors end the search.
LargestBatch find_largest_batch(int64_t first, int64_t limit,
                                const std::function<void(int64_t)>& attempt);

// The current exception as one line; rethrows errors that are not about memory. Call in a handler.
std::string out_of_memory_line();

}  // namespace emblem
