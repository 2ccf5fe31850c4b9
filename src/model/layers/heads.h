// model/layers/heads.h - the heads of a model as nodes of its graph, and their losses.
#pragma once

#include <vector>

#include "config/feature/heads.h"
#include "model/layers/inputs.h"
#include "nn/graph.h"

namespace emblem {

struct Head {
  HeadSpec spec;
  Node logits;   // [rows, domains * classes]
  // [rows, classes], those of the row's domain, which a label names: of each model of an ensemble.
  std::vector<Node> learned;
};

// For each model of an ensemble its logits, one node per domain. The head's are their means.
Head make_head(Graph& graph, const ModelInputs& inputs, const HeadSpec& spec,
               const std::vector<std::vector<Node>>& members);

// Adds all losses of a head, named LOSS_TOWER.
void add_losses(Graph& graph, ModelInputs& inputs, const Head& head);

// Where the labels and weights of a head are; without the name of a loss.
Graph::Target target_of(const ModelInputs& inputs, const HeadSpec& spec);

}  // namespace emblem
