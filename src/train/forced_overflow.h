// train/forced_overflow.h - a test hook: gradients overflow at steps that a test names, on every
// device and in every precision.
#pragma once

#include <cstdint>

namespace emblem {

#if defined(EMBLEM_TEST_HOOKS)

// Whether EMBLEM_TEST_OVERFLOW_STEPS, a list of steps ("4,8") or "all", has the step, counted from
// 1.
bool overflow_is_forced(int64_t step);

#else

constexpr bool overflow_is_forced(int64_t) { return false; }

#endif

}  // namespace emblem
