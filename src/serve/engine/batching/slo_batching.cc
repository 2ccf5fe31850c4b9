#include "serve/engine/batching/slo_batching.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace emblem {
namespace {

constexpr double kLateShare = 0.005;  // share of late answers; half of what p99 permits
constexpr double kStep = 0.05;        // share of the target by which a late batch raises the margin
constexpr double kFirstMargin = 0.1;  // share of the target while nothing is known
// Share of the target: giving up batches makes an overload worse.
constexpr double kMostMargin = 0.5;

}  // namespace

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

// Averages with the weights of TCP's estimate of round trips.
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

SloBatching::SloBatching(Nanoseconds target)
    : target_(target_here(target)), margin_(kFirstMargin * static_cast<double>(target_.count())) {}

ServiceTimes::Nanoseconds SloBatching::delay(int64_t rows, const ServiceTimes& times) const {
  const Nanoseconds service = times.cautious(rows).value_or(target_);
  return std::max(Nanoseconds(0), target_ - service - margin());
}

void SloBatching::finished(int64_t requests, int64_t late) {
  const auto target = static_cast<double>(target_.count());
  const double late_share = static_cast<double>(late) / static_cast<double>(requests);
  margin_ =
      std::clamp(margin_ + kStep * target * (late_share - kLateShare), 0.0, kMostMargin * target);
  others_ += (static_cast<double>(requests - 1) - others_) / 4;
  ++batches_;
}

}  // namespace emblem
