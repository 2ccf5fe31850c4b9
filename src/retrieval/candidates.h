// retrieval/candidates.h - the items of one query that may be among its best.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/memory/view.h"

namespace emblem {

// The score of an item is in [lower, upper]: both are the score once it is exact.
struct Candidate {
  float lower, upper;
  int32_t part, row;
};

// An item and its exact score. Results are in this order: scores descending, ids ascending.
struct ScoredItem {
  float score;
  int64_t id;

  bool operator<(const ScoredItem& other) const {
    return score != other.score ? score > other.score : id < other.id;
  }
  bool operator==(const ScoredItem&) const = default;
};

// Holds what may be among the best k, in memory that does not depend on how many are added: where
// bounds do not tell candidates apart (equal scores), they are replaced by exact scores. Used by
// one thread.
class Candidates {
 public:
  static constexpr float kAll = -std::numeric_limits<float>::infinity();

  explicit Candidates(int64_t k)
      : k_(static_cast<size_t>(k)), capacity_(std::max<size_t>(4 * k_, 256)) {}

  // The k-th best score is not below this: candidates with a lower upper bound need not be added.
  float threshold() const { return threshold_; }

  // exact(candidates, items) writes the ScoredItem of each candidate.
  template <class Exact>
  void add(const Candidate& candidate, Exact&& exact) {
    held_.push_back(candidate);
    if (held_.size() >= capacity_) shrink(exact);
  }

  // Adds those of another part of the items.
  template <class Exact>
  void merge(const Candidates& other, Exact&& exact) {
    for (const Candidate& candidate : other.held_)
      if (candidate.upper >= threshold_) add(candidate, exact);
  }

  // Raises the threshold to what candidates allow, if there are enough to be worth it.
  void raise_threshold() {
    if (held_.size() >= (threshold_ == kAll ? k_ : 2 * k_)) drop_worse();
  }

  // The best k, in order.
  template <class Exact>
  std::vector<ScoredItem> best(Exact&& exact) {
    drop_worse();
    std::vector<ScoredItem> items(held_.size());
    exact(std::span<const Candidate>(held_), items.data());
    const size_t count = std::min(k_, items.size());
    std::partial_sort(items.begin(), items.begin() + count, items.end());
    items.resize(count);
    return items;
  }

 private:
  template <class Exact>
  void shrink(Exact&& exact) {
    drop_worse();
    if (held_.size() > capacity_ / 2) keep_best(exact);
  }

  // Drops candidates that k others are certainly above.
  void drop_worse() {
    if (held_.size() <= k_) return;
    std::nth_element(held_.begin(), held_.begin() + (k_ - 1), held_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.lower > b.lower; });
    threshold_ = std::max(threshold_, held_[k_ - 1].lower);
    std::erase_if(held_, [&](const Candidate& candidate) { return candidate.upper < threshold_; });
  }

  template <class Exact>
  void keep_best(Exact&& exact) {
    std::vector<ScoredItem> scored(held_.size());
    exact(std::span<const Candidate>(held_), scored.data());
    std::vector<std::pair<ScoredItem, Candidate>> items;
    items.reserve(held_.size());
    for (size_t i = 0; i < held_.size(); ++i) {
      const float score = scored[i].score;
      items.push_back({scored[i], {score, score, held_[i].part, held_[i].row}});
    }
    const size_t count = std::min(k_, items.size());
    std::nth_element(items.begin(), items.begin() + (count - 1), items.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    held_.clear();
    for (size_t i = 0; i < count; ++i) held_.push_back(items[i].second);
    threshold_ = std::max(threshold_, items[count - 1].first.score);
  }

  size_t k_, capacity_;
  float threshold_ = kAll;
  std::vector<Candidate> held_;
};

}  // namespace emblem
