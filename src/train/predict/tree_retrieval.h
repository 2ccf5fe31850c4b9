// train/predict/tree_retrieval.h - searches for items down a tree, level by level, by a model that
// scores its nodes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/loader/sampling/node_rows.h"
#include "train/predict/full_retrieval.h"
#include "train/run/batch_stream.h"
#include "train/run/host_logits.h"

namespace emblem {

// The nodes that a search of `k` items begins with: all of the first level of which a whole tree
// has at least 2 k nodes for each child of a node; of the last level where there is none.
ItemTree::Nodes first_nodes(const ItemTree& tree, int64_t k);

// Scores nodes of a tree for the rows of a batch. Used by one thread.
class NodeScorer {
 public:
  // All of these outlive it. A batch of the model has up to `max_rows` rows.
  NodeScorer(const Context& context, Model& model, const NodeRows& nodes, int64_t max_rows);

  // Fills scores[rows], which order nodes as the probability of label 1 does. Throws Error for a
  // score that is not finite.
  void score(const Batch& users, std::span<const NodeRows::Row> rows, std::vector<float>& scores);

 private:
  const Context& context_;
  Model& model_;
  const NodeRows& nodes_;
  size_t max_rows_;
  Batch batches_[2];  // in turns: a stream may still read the one before
  int turn_ = 0;
  BatchStream stream_;
  HostLogits logits_;
};

// Items that a user must not get, by id and ascending.
using ExcludedItems = std::span<const int64_t>;

// The best `k` items for each of `rows` of a batch, best first: the children of the best 2 k nodes
// of each level are scored, from first_nodes() on. Of nodes with equal scores those with lower ids
// come first. `excluded` has the items of each row.
std::vector<std::vector<int64_t>> search_tree(const ItemTree& tree, NodeScorer& scorer,
                                              const Batch& users, std::span<const uint32_t> rows,
                                              std::span<const ExcludedItems> excluded, int64_t k);

struct TreeRetrievalOptions {
  std::string tree;  // folder with the node table, and the edges of searches
  // As in FullRetrievalOptions, without `items`; item_id empty: that of the sampler.
  FullRetrievalOptions search;
};

// Searches the tree for each user, and measures as evaluate_full_retrieval does: items that the
// tree leads away from count as not found. `model` was restored for evaluations. Throws Error for a
// model without data_config.tdm_sampler.
Evaluation evaluate_tree_retrieval(const Context& context, RestoredModel& model,
                                   const TreeRetrievalOptions& options,
                                   const PassWatch& watch = {});

}  // namespace emblem
