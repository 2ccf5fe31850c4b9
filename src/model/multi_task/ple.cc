// PLE: layers of experts of each task and of all tasks, weighed by gates.
#include "core/text/text.h"
#include "emblem/error.h"
#include "model/layers/layers.h"
#include "model/models.h"

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

HeadLogits build_ple(Graph& graph, ModelInputs& inputs, const std::vector<HeadSpec>&) {
  const config::PLE& model = inputs.config().model_config().ple();
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
  HeadLogits logits;
  for (int t = 0; t < model.task_towers_size(); ++t)
    logits.push_back(
        {add_task_tower(graph, states.tasks[static_cast<size_t>(t)], model.task_towers(t))});
  return logits;
}

void check_ple(const config::PipelineConfig& config, const FeatureLayout&) {
  const config::PLE& model = config.model_config().ple();
  EMBLEM_REQUIRE(model.extraction_networks_size() > 0, "ple has no extraction_networks");
  for (int i = 0; i < model.extraction_networks_size(); ++i) {
    const config::ExtractionNetwork& network = model.extraction_networks(i);
    const std::string path = cat("ple.extraction_networks[", i, "]");
    require_units(network.task_expert_net(), path + ".task_expert_net");
    require_units(network.share_expert_net(), path + ".share_expert_net");
    EMBLEM_REQUIRE(last_of(network.task_expert_net()) == last_of(network.share_expert_net()), path,
                   " has experts of tasks that end in ", last_of(network.task_expert_net()),
                   " units and shared ones that end in ", last_of(network.share_expert_net()),
                   "; they are mixed: make them equal");
    EMBLEM_REQUIRE(network.expert_num_per_task() > 0 && network.share_num() > 0, path, ".",
                   network.share_num() == 0 ? "share_num" : "expert_num_per_task",
                   " is 0, expected at least 1");
  }
}

}  // namespace

ModelKind ple_model() {
  return {.name = "ple", .groups = reads_first_group, .check = check_ple, .build_heads = build_ple};
}

}  // namespace emblem
