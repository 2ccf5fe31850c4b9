// nn/matching.h - layers of matching models: users, the rows of a batch, choose among items.
#pragma once

#include "loss/candidate_rank.h"
#include "nn/graph.h"

namespace emblem {

// What the item of a row competes with. Row r's own item is row r of the items.
enum class Candidates {
  kAllItems,   // all items, those of the other rows among them
  kNegatives,  // the items behind those of the rows
};

// Scores are dot products of users [rows, n] and items [items, n], divided by `temperature`. Items
// belong to the batch, or to a sequence that begins with one for each row of the batch. Out [rows,
// kRankColumns]: a CandidateRank each, of which only the loss has a gradient. No matrix of scores
// is kept: backward computes them again.
Node rank_candidates(Graph& graph, Node users, Node items, Candidates candidates,
                     float temperature);

// A loss: the weighted mean over rows of the first column of x, which is kept in fp32.
void minimize_mean(Graph& graph, Node x, const Graph::Target& target);

// A loss in training only: of the squared distance of each row of x to that of y, which it does not
// change, the sum; where rows have weights, the weighted mean.
void mimicry_loss(Graph& graph, Node x, Node y, const Graph::Target& target);

}  // namespace emblem
