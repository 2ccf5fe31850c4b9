#include "serve/engine/slo_batching.h"

#include <algorithm>

namespace emblem {
namespace {

constexpr double kLateShare = 0.005;  // of answers; half of what p99 permits
constexpr double kStep = 0.05;        // of the target: by how much a late batch raises the margin
constexpr double kFirstMargin = 0.1;  // of the target, while nothing is known
constexpr double kMostMargin = 0.5;   // of the target: giving up batches makes an overload worse

}  // namespace

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
  company_ += (static_cast<double>(requests - 1) - company_) / 4;
  ++batches_;
}

}  // namespace emblem
