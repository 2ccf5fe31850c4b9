// embedding/cpu/lowest.h - exact selection of the k lowest-scored keys, without sorting or copying
// all of them.
#pragma once

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstdint>
#include <vector>

namespace emblem {

// Ordered by score, then by key: the keys of a table are distinct, so the order is unique.
struct ScoredKey {
  int64_t score;
  int64_t key;
  auto operator<=>(const ScoredKey&) const = default;
};

namespace detail {
inline constexpr int64_t kSamples = 1 << 16;
}

// The k-th lowest (k from 1) of the `count` >= k items that for_each(visit) visits, the same ones
// at each call. Visits them twice, and copies about one percent when there are millions.
template <class ForEach>
ScoredKey kth_lowest(int64_t count, int64_t k, ForEach&& for_each) {
  std::vector<ScoredKey> kept;
  const auto nth = [&](int64_t n) {
    std::nth_element(kept.begin(), kept.begin() + n, kept.end());
    return kept[n];
  };
  const auto keep_all = [&] {
    kept.clear();
    kept.reserve(count);
    for_each([&](const ScoredKey& item) { kept.push_back(item); });
    return nth(k - 1);
  };
  if (count <= 16 * detail::kSamples) return keep_all();

  const int64_t stride = count / detail::kSamples;
  int64_t seen = 0;
  for_each([&](const ScoredKey& item) {
    if (seen++ % stride == 0) kept.push_back(item);
  });
  std::sort(kept.begin(), kept.end());
  // Six standard deviations around the quantile; if the result is outside, all items are copied.
  const auto samples = static_cast<int64_t>(kept.size());
  const double share = static_cast<double>(k) / static_cast<double>(count);
  const auto margin = static_cast<int64_t>(6 * std::sqrt(share * (1 - share) * samples)) + 16;
  const auto middle = static_cast<int64_t>(share * samples);
  const ScoredKey low = kept[std::clamp<int64_t>(middle - margin, 0, samples - 1)];
  const ScoredKey high = kept[std::clamp<int64_t>(middle + margin, 0, samples - 1)];
  const bool from_lowest = middle - margin <= 0, to_highest = middle + margin >= samples - 1;

  kept.clear();
  int64_t below = 0;
  for_each([&](const ScoredKey& item) {
    if (!from_lowest && item < low)
      ++below;
    else if (to_highest || item <= high)
      kept.push_back(item);
  });
  if (k <= below || k > below + static_cast<int64_t>(kept.size())) return keep_all();
  return nth(k - below - 1);
}

}  // namespace emblem
