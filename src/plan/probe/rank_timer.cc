#include "plan/probe/rank_timer.h"

#include <cmath>

namespace emblem {
namespace {

constexpr int64_t kLeastRepetitions = 3, kMostRepetitions = 300;

// The value below which a share of the repetitions is, each of its slowest rank.
double quantile_of_slowest(Communicator& ranks, std::vector<double> own, double share) {
  if (own.empty()) return 0;
  std::vector<double> all(own.size() * static_cast<size_t>(ranks.size()));
  ranks.gather_all(Context{}, {own.data(), own.size() * sizeof(double)},
                   {all.data(), all.size() * sizeof(double)});
  for (size_t r = 0; r < static_cast<size_t>(ranks.size()); ++r)
    for (size_t i = 0; i < own.size(); ++i) own[i] = std::max(own[i], all[r * own.size() + i]);
  const auto found = own.begin() + static_cast<ptrdiff_t>(share * static_cast<double>(own.size()));
  std::nth_element(own.begin(), found, own.end());
  return *found;
}

}  // namespace

double median_of_slowest(Communicator& ranks, std::vector<double> own) {
  return quantile_of_slowest(ranks, std::move(own), 0.5);
}

double low_of_slowest(Communicator& ranks, std::vector<double> own) {
  return quantile_of_slowest(ranks, std::move(own), 0.25);
}

int64_t RankTimer::repetitions(double seconds) {
  const double slowest = std::max(1e-7, median_of_slowest(ranks_, {seconds}));
  return std::clamp(static_cast<int64_t>(std::ceil(seconds_ / slowest)), kLeastRepetitions,
                    kMostRepetitions);
}

}  // namespace emblem
