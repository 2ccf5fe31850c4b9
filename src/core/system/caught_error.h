// core/system/caught_error.h - for threads and callbacks, which no exception may leave: what was
// caught, as an Error.
#pragma once

#include "emblem/error.h"

namespace emblem {

// Call it in a catch block. An Error stays what it is, std::bad_alloc becomes kOutOfMemory,
// HeapAccountExhausted kUnavailable, an error of std::filesystem kUnavailable with its paths and
// reason, anything else kInternal. Needs no memory when there is none.
Error caught_error() noexcept;

// Logs "<doing>: <what was caught>" as an error, or for those who debug. Call them in a catch
// block.
void log_caught(const char* doing) noexcept;
void debug_caught(const char* doing) noexcept;

}  // namespace emblem
