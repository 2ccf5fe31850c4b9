#include "model/layers/heads.h"

#include <iterator>

#include "emblem/error.h"
#include "loss/from_config.h"

namespace emblem {
namespace {

using config::LossConfig;

void add_loss(Graph& graph, ModelInputs& inputs, const HeadSpec& spec, Node logits,
              const LossConfig& loss) {
  const AnyLoss any = loss_from(loss);
  Graph::Target target = target_of(inputs, spec);
  target.name = spec.named(name_of(any));
  const auto session = session_of(loss);
  graph.minimize(any, logits, target, session ? inputs.ids(*session) : Node{});
}

}  // namespace

Graph::Target target_of(const ModelInputs& inputs, const HeadSpec& spec) {
  Graph::Target target{.labels = inputs.labels(), .label = spec.label, .factor = spec.weight};
  if (spec.sample_weight >= 0) {
    target.weights = inputs.weights();
    target.weight = spec.sample_weight;
  }
  target.indicator = spec.indicator;
  target.in_space = spec.in_space;
  target.out_space = spec.out_space;
  target.training_only = spec.in_training_only;
  return target;
}

Head make_head(Graph& graph, const ModelInputs& inputs, const HeadSpec& spec,
               const std::vector<Node>& logits) {
  EMBLEM_REQUIRE(std::ssize(logits) == spec.domains && graph.cols(logits[0]) == spec.classes,
                 "head \"", spec.name, "\" has ", logits.size(), " domains of ",
                 graph.cols(logits.at(0)), " logits, expected ", spec.domains, " of ",
                 spec.classes);
  if (spec.domain < 0) return {spec, logits[0], logits[0]};
  const Node all = graph.concat(logits);
  graph.mark_output(all);
  return {spec, all, graph.select(logits, inputs.labels(), spec.domain)};
}

void add_losses(Graph& graph, ModelInputs& inputs, const Head& head) {
  for (const LossConfig& loss : head.spec.losses)
    add_loss(graph, inputs, head.spec, head.learned, loss);
}

}  // namespace emblem
