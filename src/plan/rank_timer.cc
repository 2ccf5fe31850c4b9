#include "plan/rank_timer.h"

#include <cmath>

namespace emblem {
namespace {

constexpr int64_t kLeastRepetitions = 5, kMostRepetitions = 300;

}  // namespace

double median_of_slowest(Communicator& ranks, std::vector<double> own) {
  if (own.empty()) return 0;
  std::vector<double> all(own.size() * static_cast<size_t>(ranks.size()));
  ranks.gather_all(Context{}, {own.data(), own.size() * sizeof(double)},
                   {all.data(), all.size() * sizeof(double)});
  for (size_t r = 0; r < static_cast<size_t>(ranks.size()); ++r)
    for (size_t i = 0; i < own.size(); ++i) own[i] = std::max(own[i], all[r * own.size() + i]);
  const auto middle = own.begin() + static_cast<ptrdiff_t>(own.size() / 2);
  std::nth_element(own.begin(), middle, own.end());
  return *middle;
}

int64_t RankTimer::repetitions(double seconds) {
  const double slowest = std::max(1e-7, median_of_slowest(ranks_, {seconds}));
  return std::clamp(static_cast<int64_t>(std::ceil(seconds_ / slowest)), kLeastRepetitions,
                    kMostRepetitions);
}

}  // namespace emblem
