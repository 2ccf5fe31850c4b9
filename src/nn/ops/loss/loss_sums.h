// nn/ops/loss/loss_sums.h - weighted sums over rows on a CPU, the same with any number of threads.
#pragma once

#include "core/threads/thread_pool.h"
#include "nn/ops/op.h"

namespace emblem {

struct WeightedSum {
  double loss = 0.0, weight = 0.0;

  void add(double row_loss, double row_weight) {
    loss += row_weight * row_loss;
    weight += row_weight;
  }
  double mean(double factor) const { return weight == 0.0 ? 0.0 : factor * loss / weight; }
};

// Calls row(r, sum) for each row, which adds it to the sum.
template <class Row>
WeightedSum sum_rows(const OpContext& pass, Row&& row) {
  const RowGroups groups = row_groups(pass.rows);
  WeightedSum parts[kMaxRowGroups], total;
  parallel_for(pass.context, pass.rows, groups.rows_each, [&](int64_t begin, int64_t end) {
    WeightedSum part;
    for (int64_t r = begin; r < end; ++r) row(r, part);
    parts[begin / groups.rows_each] = part;
  });
  for (int64_t group = 0; group < groups.count; ++group) {
    total.loss += parts[group].loss;
    total.weight += parts[group].weight;
  }
  return total;
}

}  // namespace emblem
