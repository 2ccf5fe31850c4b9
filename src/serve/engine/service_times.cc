#include "serve/engine/service_times.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace emblem {

// 1, 2, 3, 4, ..., 7, 8, 10, 12, 14, 16, 20, ...: four classes for a power of 2.
size_t ServiceTimes::size_class(int64_t rows) {
  const auto size = static_cast<uint64_t>(std::max<int64_t>(1, rows));
  if (size < 4) return static_cast<size_t>(size) - 1;
  const auto power = static_cast<size_t>(std::bit_width(size)) - 1;
  const size_t quarter = (size >> (power - 2)) & 3;
  return std::min((power - 2) * 4 + quarter + 3, std::tuple_size_v<decltype(classes_)> - 1);
}

double ServiceTimes::smallest_of(size_t size_class) {
  if (size_class < 3) return static_cast<double>(size_class + 1);
  const size_t power = (size_class - 3) / 4, quarter = (size_class - 3) % 4;
  return std::ldexp(static_cast<double>(4 + quarter), static_cast<int>(power));
}

// With the weights of TCP's estimate of round trips.
void ServiceTimes::add(int64_t rows, Nanoseconds time) {
  SizeClass& size = classes_[size_class(rows)];
  const auto found = static_cast<double>(time.count());
  if (!size.measured) {
    size = {.measured = true, .mean = found, .deviation = found / 2};
    return;
  }
  size.deviation += (std::fabs(found - size.mean) - size.deviation) / 4;
  size.mean += (found - size.mean) / 8;
}

template <class Value>
std::optional<ServiceTimes::Nanoseconds> ServiceTimes::estimate(int64_t rows, Value value) const {
  std::optional<double> result;
  const size_t wanted = size_class(rows);
  for (size_t i = wanted; i < classes_.size() && !result; ++i) {
    if (classes_[i].measured) result = value(classes_[i]);
  }
  for (size_t i = wanted; !classes_[wanted].measured && i-- > 0;) {
    if (!classes_[i].measured) continue;
    const double scaled = value(classes_[i]) * static_cast<double>(rows) / smallest_of(i);
    result = std::min(scaled, result.value_or(scaled));
    break;
  }
  if (!result) return std::nullopt;
  return Nanoseconds(static_cast<int64_t>(std::min(*result, 1e18)));
}

std::optional<ServiceTimes::Nanoseconds> ServiceTimes::mean(int64_t rows) const {
  return estimate(rows, [](const SizeClass& size) { return size.mean; });
}

std::optional<ServiceTimes::Nanoseconds> ServiceTimes::cautious(int64_t rows) const {
  return estimate(rows, [](const SizeClass& size) { return size.mean + 3 * size.deviation; });
}

}  // namespace emblem
