#include "model/heads.h"

#include <iterator>

#include "emblem/error.h"

namespace emblem {
namespace {

using config::LossConfig;

std::string loss_name(const LossConfig& loss) {
  const auto* field = loss.GetDescriptor()->FindFieldByNumber(loss.loss_case());
  return field ? field->name() : "loss";
}

void add_loss(Graph& graph, ModelInputs& inputs, const HeadSpec& spec, Node logits,
              const LossConfig& loss) {
  Graph::Target target = target_of(inputs, spec);
  target.name = spec.named(loss_name(loss));
  switch (loss.loss_case()) {
    case LossConfig::kBinaryCrossEntropy:
      return graph.binary_cross_entropy(logits, target,
                                        loss.binary_cross_entropy().label_smoothing());
    case LossConfig::kSoftmaxCrossEntropy:
      return graph.softmax_cross_entropy(logits, target,
                                         loss.softmax_cross_entropy().label_smoothing());
    case LossConfig::kBinaryFocalLoss:
      return graph.focal_loss(logits, target, loss.binary_focal_loss().gamma(),
                              loss.binary_focal_loss().alpha());
    case LossConfig::kL2Loss:
      return graph.l2_loss(logits, target, loss.l2_loss().mean(),
                           loss.l2_loss().standard_deviation());
    case LossConfig::kJrcLoss:
      return graph.jrc_loss(logits, inputs.ids(loss.jrc_loss().session_name()), target,
                            loss.jrc_loss().alpha());
    default:
      break;
  }
  throw Error(ErrorCode::kInvalidArgument,
              "a loss is empty; set one of binary_cross_entropy, softmax_cross_entropy, "
              "binary_focal_loss, l2_loss, jrc_loss");
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
