// core/math/divide.h - quotients and multiples, rounded up.
#pragma once

#include <concepts>
#include <type_traits>

namespace emblem {

// `value` >= 0, `by` > 0.
template <std::integral T>
constexpr T divide_up(T value, std::type_identity_t<T> by) {
  return (value + by - 1) / by;
}

// The least multiple of `unit` that is not below `value`.
template <std::integral T>
constexpr T round_up(T value, std::type_identity_t<T> unit) {
  return divide_up(value, unit) * unit;
}

}  // namespace emblem
