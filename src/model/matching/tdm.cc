// TDM: how likely a user chooses an item below a node of a tree. Attention over the elements of a
// SEQUENCE group by windows, beside all other groups. Searches go down the tree by it.
#include <algorithm>

#include "config/feature/tree_items.h"
#include "core/text/text.h"
#include "emblem/error.h"
#include "model/layers/encoders.h"
#include "model/layers/layers.h"
#include "model/models.h"

namespace emblem {
namespace {

bool is_sequence_group(const config::FeatureGroupConfig& group) {
  return group.group_type() == config::SEQUENCE;
}

Node build_tdm(Graph& graph, ModelInputs& inputs, int64_t classes) {
  const config::ModelConfig& config = inputs.config().model_config();
  const config::TDM& model = config.tdm();
  std::vector<Node> parts(1);
  for (const config::FeatureGroupConfig& group : config.feature_groups()) {
    if (is_sequence_group(group))
      parts[0] = add_multi_window_din(graph, "multiwindow_din", inputs.sequence(group.group_name()),
                                      {model.multiwindow_din().windows_len().begin(),
                                       model.multiwindow_din().windows_len().end()},
                                      model.multiwindow_din().attn_mlp());
    else
      parts.push_back(inputs.group(group.group_name()));
  }
  return add_logits(graph, "output", add_mlp(graph, "final", graph.concat(parts), model.final()),
                    classes);
}

std::vector<GroupUse> groups_of_tdm(const config::PipelineConfig& config) {
  std::vector<GroupUse> uses;
  for (const config::FeatureGroupConfig& group : config.model_config().feature_groups())
    uses.push_back(
        {group.group_name(), is_sequence_group(group) ? GroupPart::kSequence : GroupPart::kAll});
  return uses;
}

void check_tdm(const config::PipelineConfig& config, const FeatureLayout& layout) {
  const auto& groups = config.model_config().feature_groups();
  const auto sequences = std::count_if(groups.begin(), groups.end(), is_sequence_group);
  EMBLEM_REQUIRE(sequences == 1, "tdm has ", sequences,
                 " feature groups of group_type SEQUENCE, expected one: what users chose before, "
                 "and the same features of the item");
  if (const auto sampler = tree_sampler_of(config.data_config())) {
    features_of_nodes(*sampler, layout);
    rows_with_samples(config.data_config(), config.data_config().batch_size());
  }
}

}  // namespace

ModelKind tdm_model() {
  return {.name = "tdm", .groups = groups_of_tdm, .check = check_tdm, .build = build_tdm};
}

}  // namespace emblem
