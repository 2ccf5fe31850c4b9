// PLE: layers of experts of each task and of all tasks, weighed by gates.
#include "core/text.h"
#include "emblem/error.h"
#include "model/builders.h"
#include "model/layers.h"

namespace emblem {
namespace {

// What a layer reads and gives: a value of each task and one that they share.
struct States {
  std::vector<Node> tasks;
  Node shared;
};

enum class Position { kInner, kLast };  // the last layer has no shared output

States add_extraction(Graph& graph, const std::string& scope, const States& x,
                      const std::vector<std::string>& names,
                      const config::ExtractionNetwork& network, Position position) {
  const std::vector<Node> shared = add_experts(graph, scope + ".shared.experts", x.shared,
                                               network.share_num(), network.share_expert_net());
  std::vector<Node> all;
  States out;
  for (size_t t = 0; t < names.size(); ++t) {
    const std::string task = cat(scope, ".", names[t]);
    std::vector<Node> experts =
        add_experts(graph, task + ".experts", x.tasks[t], network.expert_num_per_task(),
                    network.task_expert_net());
    EMBLEM_REQUIRE(graph.cols(experts[0]) == graph.cols(shared[0]), "ple: ", scope,
                   ": task_expert_net ends in ", graph.cols(experts[0]),
                   " units and share_expert_net in ", graph.cols(shared[0]),
                   "; they must be equal");
    all.insert(all.end(), experts.begin(), experts.end());
    experts.insert(experts.end(), shared.begin(), shared.end());
    out.tasks.push_back(add_gate(graph, task + ".gate", x.tasks[t], {}, experts));
  }
  if (position == Position::kInner) {
    all.insert(all.end(), shared.begin(), shared.end());
    out.shared = add_gate(graph, scope + ".shared.gate", x.shared, {}, all);
  }
  return out;
}

}  // namespace

std::vector<Node> build_ple(Graph& graph, ModelInputs& inputs, const config::PLE& model) {
  const Node x = inputs.first_group();
  std::vector<std::string> names;
  for (const config::TaskTower& tower : model.task_towers()) names.push_back(tower.tower_name());
  States states{std::vector<Node>(names.size(), x), x};
  const int layers = model.extraction_networks_size();
  for (int i = 0; i < layers; ++i) {
    const config::ExtractionNetwork& network = model.extraction_networks(i);
    const std::string name = network.network_name().empty() ? cat(i) : network.network_name();
    states = add_extraction(graph, "extraction." + name, states, names, network,
                            i + 1 == layers ? Position::kLast : Position::kInner);
  }
  std::vector<Node> logits;
  for (int t = 0; t < model.task_towers_size(); ++t)
    logits.push_back(
        add_task_tower(graph, states.tasks[static_cast<size_t>(t)], model.task_towers(t)));
  return logits;
}

}  // namespace emblem
