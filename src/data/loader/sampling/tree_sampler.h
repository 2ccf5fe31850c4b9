// data/loader/sampling/tree_sampler.h - nodes of a tree of items that are sampled for the rows of a
// batch: how a model learns to go down the tree.
#pragma once

#include <vector>

#include "core/math/random.h"
#include "data/loader/loader.h"
#include "data/loader/sampling/node_rows.h"

namespace emblem {

// `count` distinct numbers below `bound`, each set of them with equal chance, in the order in which
// they are found (Floyd's method). `count` is at most `bound`.
std::vector<int64_t> draw_distinct(Random& random, int64_t count, int64_t bound);

// Const methods may run concurrently.
class TreeSampler {
 public:
  TreeSampler(const config::DataConfig& data, const FeatureLayout& layout,
              const LoaderOptions& options);

  // Overwrites `out` with the rows of `read`, then the ancestors of their items, then other nodes
  // of the ancestors' and the items' levels, as many as layer_num_sample says. In each part nodes
  // of a row follow each other level by level. Labels are those of the rows, 1, and 0; all else
  // that is not of the item is the row's. Bad rows have no nodes. What is drawn depends on the
  // seed, the stream and the place of the batch in the data alone. Throws Error for a row whose
  // item is not in the tree.
  void sample(const Batch& read, Batch& out) const;

  // What a row becomes, on average.
  double rows_of_row() const;

 private:
  void check_levels() const;
  std::vector<int64_t> draw_levels(Random& random) const;

  TreeSamplerSpec spec_;
  uint64_t seed_;
  NodeRows rows_;
};

}  // namespace emblem
