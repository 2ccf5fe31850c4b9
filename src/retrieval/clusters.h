// retrieval/clusters.h - k-means: what the lists of an index of kind ivf_flat are.
#pragma once

#include <memory>
#include <vector>

#include "core/device/context.h"
#include "retrieval/search.h"

namespace emblem {

struct ClusterOptions {
  int64_t lists = 1;
  Similarity similarity = Similarity::kInnerProduct;
  uint64_t seed = 1;
  int iterations = 10;
  int64_t points_per_list = 256;  // that are drawn to train with
};

// Centroids of the rows, as a segment whose ids are the numbers of lists: those of least squared
// distances, or, for cosine, of the largest inner products with normalized means. The same for any
// number of threads. There are at least as many rows as lists.
std::shared_ptr<const ItemSegment> train_clusters(const Context& context, const ItemRows& rows,
                                                  const ClusterOptions& options,
                                                  const cpu::TileKernel* kernel = nullptr);

// The list that each row belongs to.
std::vector<int32_t> assign_clusters(const Context& context, const ItemRows& rows,
                                     const ItemSegment& centroids, Similarity similarity);

}  // namespace emblem
