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

// Inputs that belong where the items do; id -1: there are none.
struct CandidateOptions {
  Candidates candidates = Candidates::kAllItems;
  float temperature = 1.0f;
  // Ids (id_input_of): an item with the id of the row's own item does not compete with it.
  Node ids = {};
  // [items, 1]: the loss reads scores less these numbers, which are finite; ranks do not.
  Node corrections = {};
  // Ids: the row that an item is a candidate of, -1: of all rows. Items of single rows are the last
  // ones, in the order of the rows.
  Node candidate_of = {};
};

// As Graph::id_input, where items belong: to the batch, or to a sequence.
Node id_input_of(Graph& graph, std::string name, Space items);

// Scores are dot products of users [rows, n] and items [items, n], divided by `temperature`. Items
// belong to the batch, or to a sequence that begins with one for each row of the batch. Out [rows,
// kRankColumns]: a CandidateRank each, of which only the loss has a gradient. No matrix of scores
// is kept: backward computes them again.
Node rank_candidates(Graph& graph, Node users, Node items, const CandidateOptions& options);

// A loss: the weighted mean over rows of the first column of x, which is kept in fp32.
void minimize_mean(Graph& graph, Node x, const Graph::Target& target);

// A loss in training only: of the squared distance of each row of x to that of y, which it does not
// change, the sum; where rows have weights, the weighted mean.
void mimicry_loss(Graph& graph, Node x, Node y, const Graph::Target& target);

}  // namespace emblem
