// metric/recall.h - recall@k for models that score many candidates per query.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/memory/view.h"
#include "metric/metric.h"

namespace emblem {

// The chance that candidate `target` is among the k best of `scores` when ties are broken at
// random: 0 or 1 unless the target ties with others across the border. A model that gives all the
// same score gets k / n.
double recall_at_k(std::span<const float> scores, int64_t target, int64_t k);

// The mean of recall_at_k over queries.
class RecallAtK {
 public:
  explicit RecallAtK(int64_t k);

  std::string name() const;  // "recall@5"

  // `scores` [queries, candidates] on the CPU; targets[q] is the column of query q's right answer.
  // Throws Error for targets outside the candidates and for scores that are NaN; nothing is added
  // then.
  void add(View<const float> scores, std::span<const int64_t> targets);
  double value() const;  // kUndefined without queries
  void merge(const RecallAtK& other);

 private:
  int64_t k_;
  double hits_ = 0;
  int64_t queries_ = 0;
};

}  // namespace emblem
