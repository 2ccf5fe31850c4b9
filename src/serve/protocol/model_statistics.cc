#include "serve/protocol/model_statistics.h"

#include <algorithm>
#include <cmath>

namespace emblem {

void LatencyHistogram::add(uint64_t ns) {
  const double us = std::max(1.0, static_cast<double>(ns) / 1000.0);
  const int bucket = std::min(kBuckets - 1, static_cast<int>(std::log2(us) * 4.0));
  ++buckets_[static_cast<size_t>(bucket)];
  ++count_;
}

void LatencyHistogram::add(const LatencyHistogram& now, const LatencyHistogram& before) {
  for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += now.buckets_[i] - before.buckets_[i];
  count_ += now.count_ - before.count_;
}

double LatencyHistogram::quantile_us(double quantile) const {
  if (count_ == 0) return 0.0;
  const double wanted = quantile * static_cast<double>(count_);
  double before = 0.0;
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    const double here = static_cast<double>(buckets_[bucket]);
    if (here > 0 && before + here >= wanted) {
      const double share = std::clamp((wanted - before) / here, 0.0, 1.0);
      return std::exp2((static_cast<double>(bucket) + share) / 4.0);
    }
    before += here;
  }
  return std::exp2(kBuckets / 4.0);
}

}  // namespace emblem
