// core/memory/prefetch.h - asks for cache lines that are needed soon.
#pragma once

#include <cstdint>

namespace emblem {

inline constexpr int64_t kCacheLine = 64;

namespace detail {
// The empty assembly keeps the request: GCC 12 takes a function that does nothing but prefetch for
// one without effect, and drops its calls.
template <bool kToWrite>
[[gnu::always_inline]] inline void prefetch_lines(const void* at, int64_t bytes) {
  const char* begin = static_cast<const char*>(at);
  for (int64_t offset = 0; offset < bytes; offset += kCacheLine) {
    __builtin_prefetch(begin + offset, kToWrite);
    asm volatile("");
  }
}
}  // namespace detail

// The lines of `bytes` bytes from the beginning of a line on; one line unless told.
[[gnu::always_inline]] inline void prefetch(const void* at, int64_t bytes = 1) {
  detail::prefetch_lines<false>(at, bytes);
}
[[gnu::always_inline]] inline void prefetch_to_write(const void* at, int64_t bytes = 1) {
  detail::prefetch_lines<true>(at, bytes);
}

}  // namespace emblem
