// data/format/read_throttle.h - a test hook that makes reading files slow, as on a slow disk.
#pragma once

#include <cstdint>

namespace emblem {

#if defined(EMBLEM_TEST_HOOKS)
// Sleeps until `bytes` more may have been read at EMBLEM_TEST_READ_BYTES_PER_SECOND, a limit for
// all threads together. Returns at once where the variable is not set.
void throttle_read(int64_t bytes);
#else
inline void throttle_read(int64_t) {}
#endif

}  // namespace emblem
