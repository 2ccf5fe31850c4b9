// PEPNet: gates made of a domain's features scale the embeddings (EPNet), gates made of the user's
// and item's features scale the layers of each task (PPNet).
#include "core/text/text.h"
#include "emblem/error.h"
#include "model/layers/layers.h"
#include "model/models.h"

namespace emblem {
namespace {

// What gates are made of: [side, x], where x does not learn from it.
Node gate_input(Graph& graph, Node side, Node x) {
  return graph.concat({side, graph.stop_gradient(x)});
}

// Linear(ReLU(Linear(input))), whose sigmoid scales `units` columns.
Node add_scale(Graph& graph, const std::string& scope, Node input, int64_t hidden, int64_t units) {
  graph.set_scope(scope);
  return graph.linear(graph.linear(input, hidden, Activation::kRelu), units);
}

Node add_ppnet(Graph& graph, const std::string& scope, Node input, Node x,
               const config::PEPNet& model) {
  const int layers = model.ppnet_hidden_units_size(), ratios = model.ppnet_dropout_ratio_size();
  EMBLEM_REQUIRE(layers > 0, "pepnet: a group \"uia\" needs ppnet_hidden_units");
  EMBLEM_REQUIRE(ratios <= 1 || ratios == layers, "pepnet: ", ratios, " ppnet_dropout_ratio for ",
                 layers, " layers; give none, one for all, or one per layer");
  const Activation activation = activation_from_name(model.ppnet_activation());
  Node y = x;
  for (int j = 0; j < layers; ++j) {
    const int64_t units = model.ppnet_hidden_units(j);
    const Node scale = add_scale(graph, cat(scope, ".gates.", j), input, units, units);
    graph.set_scope(scope);
    y = graph.scale_by_sigmoid(graph.linear(y, units, activation), scale, model.ppnet_gamma());
    if (ratios > 0) y = graph.dropout(y, model.ppnet_dropout_ratio(ratios == 1 ? 0 : j));
  }
  return y;
}

HeadLogits build_pepnet(Graph& graph, ModelInputs& inputs, const std::vector<HeadSpec>&) {
  const config::ModelConfig& config = inputs.config().model_config();
  const config::PEPNet& model = config.pepnet();
  Node x = inputs.group("all");
  if (has_group(config, "domain")) {
    const int64_t width = graph.cols(x);
    const int64_t hidden = model.has_epnet_hidden_unit() ? model.epnet_hidden_unit() : width;
    const Node input = gate_input(graph, inputs.group("domain"), x);
    x = graph.scale_by_sigmoid(x, add_scale(graph, "epnet", input, hidden, width),
                               model.epnet_gamma());
  }
  const bool personal = has_group(config, "uia");
  const Node input = personal ? gate_input(graph, inputs.group("uia"), x) : Node{};
  HeadLogits outputs;
  for (const config::TaskTower& tower : model.task_towers()) {
    const Node y = personal ? add_ppnet(graph, "ppnet." + tower.tower_name(), input, x, model) : x;
    std::vector<Node>& logits = outputs.emplace_back();
    if (!model.has_domain_input_name()) {
      logits.push_back(add_task_tower(graph, y, tower));
      continue;
    }
    for (uint32_t domain = 0; domain < model.task_domain_num(); ++domain)
      logits.push_back(add_task_tower(graph, y, tower, cat("_", domain)));
  }
  return outputs;
}

void check_pepnet(const config::PipelineConfig& config, const FeatureLayout&) {
  const config::ModelConfig& model = config.model_config();
  const config::PEPNet& pepnet = model.pepnet();
  EMBLEM_REQUIRE(!has_group(model, "uia") || pepnet.ppnet_hidden_units_size() > 0,
                 "pepnet reads feature group \"uia\", but has no ppnet_hidden_units");
  const int ratios = pepnet.ppnet_dropout_ratio_size(), layers = pepnet.ppnet_hidden_units_size();
  EMBLEM_REQUIRE(ratios <= 1 || ratios == layers, "pepnet.ppnet_dropout_ratio has ", ratios,
                 " numbers, expected one, or one for each of the ", layers, " ppnet_hidden_units");
}

}  // namespace

ModelKind pepnet_model() {
  return {.name = "pepnet",
          .groups = [](const config::PipelineConfig& config) -> std::vector<GroupUse> {
            std::vector<GroupUse> uses = {{"all"}};
            for (const char* name : {"domain", "uia"})
              if (has_group(config.model_config(), name)) uses.push_back({name});
            return uses;
          },
          .check = check_pepnet,
          .warn =
              [](const config::ModelConfig& model, std::vector<std::string>& warnings) {
                if (model.pepnet().has_task_domain_num() && !model.pepnet().has_domain_input_name())
                  warnings.push_back(
                      "pepnet.task_domain_num has no effect: there is no domain_input_name, which "
                      "names the label field with the number of the domain");
              },
          .build_heads = build_pepnet};
}

}  // namespace emblem
