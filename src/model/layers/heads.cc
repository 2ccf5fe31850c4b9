#include "model/layers/heads.h"

#include <iterator>

#include "emblem/error.h"
#include "loss/from_config.h"
#include "nn/matching.h"

namespace emblem {
namespace {

using config::LossConfig;

void add_loss(Graph& graph, ModelInputs& inputs, const Head& head, size_t member,
              const LossConfig& loss) {
  const AnyLoss any = loss_from(loss);
  Graph::Target target = target_of(inputs, head.spec);
  target.name = head.spec.named(name_of(any));
  if (head.learned.size() > 1) {
    target.name += cat("_member_", member + 1);
    target.factor /= static_cast<float>(head.learned.size());
  }
  if (head.spec.role == HeadSpec::Role::kRanks)
    return minimize_mean(graph, head.learned[member], target);
  const auto session = session_of(loss);
  graph.minimize(any, head.learned[member], target, session ? inputs.ids(*session) : Node{});
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
               const std::vector<std::vector<Node>>& members) {
  Head head{.spec = spec};
  std::vector<Node> all;
  for (const std::vector<Node>& logits : members) {
    EMBLEM_REQUIRE(std::ssize(logits) == spec.domains && graph.cols(logits[0]) == spec.classes,
                   "head \"", spec.name, "\" has ", logits.size(), " domains of ",
                   graph.cols(logits.at(0)), " logits, expected ", spec.domains, " of ",
                   spec.classes);
    const bool has_domains = spec.domain >= 0;
    all.push_back(has_domains ? graph.concat(logits) : logits[0]);
    head.learned.push_back(
        has_domains ? graph.select(logits, inputs.labels(), spec.domain) : logits[0]);
  }
  head.logits = all[0];
  if (all.size() > 1) head.logits = graph.scale(graph.sum(all), 1.0f / static_cast<float>(all.size()));
  if (spec.domain >= 0 || all.size() > 1) graph.mark_output(head.logits);
  return head;
}

void add_losses(Graph& graph, ModelInputs& inputs, const Head& head) {
  for (const LossConfig& loss : head.spec.losses)
    for (size_t member = 0; member < head.learned.size(); ++member)
      add_loss(graph, inputs, head, member, loss);
}

}  // namespace emblem
