#include "bench/train/largest_batch.h"

#include <algorithm>
#include <new>

#include "emblem/error.h"

namespace emblem {
namespace {

constexpr int64_t kResolution = 32;

}  // namespace

std::string out_of_memory_line() {
  try {
    throw;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory) throw;
    return error.what();
  } catch (const std::bad_alloc&) {
    return "out of host memory";
  }
}

LargestBatch find_largest_batch(int64_t first, int64_t limit,
                                const std::function<void(int64_t)>& attempt) {
  EMBLEM_REQUIRE(first >= 1 && limit >= first, "the search for the largest batch goes from ", first,
                 " to ", limit,
                 "; expected a start of at least 1 and a limit of at least the start");
  LargestBatch found;
  const auto fits = [&](int64_t batch) {
    try {
      attempt(batch);
      return true;
    } catch (...) {
      found.failed.push_back(cat("batch ", batch, ": ", out_of_memory_line()));
      return false;
    }
  };
  int64_t low = 0, high = 0;  // the largest that fits; the smallest that does not
  int64_t batch = first;
  while (fits(batch)) {
    low = batch;
    if (low == limit) {
      found.batch = limit;
      found.limited = true;
      return found;
    }
    batch = std::min(limit, 2 * low);
  }
  high = batch;
  while (high - low > std::max<int64_t>(1, low / kResolution)) {
    const int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  found.batch = low;
  return found;
}

}  // namespace emblem
