// data/format/read_throttle.h - makes reading files slow on purpose, so that tests can see what a
// slow disk does.
#pragma once

#include <cstdint>

namespace emblem {

// EMBLEM_TEST_READ_BYTES_PER_SECOND: what all reads of the process together may take. Sleeps until
// `bytes` more may have been read; returns at once where it is not set. For all threads.
void throttle_read(int64_t bytes);

}  // namespace emblem
