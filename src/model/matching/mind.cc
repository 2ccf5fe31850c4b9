// MIND: a user has several vectors, one for each interest that the elements of the history are
// routed to. In training the row's item says how much each interest counts.
#include <algorithm>

#include "core/text/text.h"
#include "emblem/error.h"
#include "model/layers/layers.h"
#include "model/matching/towers.h"
#include "nn/capsules.h"

namespace emblem {
namespace {

constexpr float kNotThere = -1e30f;  // score of an interest that a user does not have

const config::MIND& mind_in(const config::PipelineConfig& config) {
  return config.model_config().mind();
}

CapsuleOptions capsule_options_of(const config::B2ICapsule& capsule) {
  CapsuleOptions options;
  options.capsules = static_cast<int>(capsule.max_k());
  options.count =
      capsule.const_caps_num() ? CapsuleOptions::Count::kFixed : CapsuleOptions::Count::kByLength;
  options.iterations = static_cast<int>(capsule.num_iters());
  options.most_elements = capsule.max_seq_len();
  options.scale = capsule.routing_logits_scale();
  options.start = capsule.routing_init_method() == "zeros" ? CapsuleOptions::Start::kZeros
                                                           : CapsuleOptions::Start::kNormal;
  options.deviation = capsule.routing_logits_stddev();
  options.squash_power = capsule.squash_pow();
  return options;
}

// All layers of an MLP but the last, which is linear. Ratios of dropout are equal (check_mind).
config::MLP without_last_layer(config::MLP mlp) {
  mlp.mutable_hidden_units()->RemoveLast();
  if (mlp.dropout_ratio_size() > 1) mlp.mutable_dropout_ratio()->Truncate(1);
  return mlp;
}

Node add_user_layers(Graph& graph, Node x, const config::MLP& mlp) {
  const Node hidden = add_mlp(graph, "user_tower.user", x, without_last_layer(mlp));
  return add_logits(graph, "user_tower.user.output", hidden, last_of(mlp));
}

Node add_history_layers(Graph& graph, Node x, const config::MLP& mlp) {
  if (mlp.hidden_units_size() == 0) return x;
  config::MLP layers = without_last_layer(mlp);
  layers.set_bias(false);
  const Node hidden = add_mlp(graph, "user_tower.history", x, layers);
  return add_logits_without_bias(graph, "user_tower.history.output", hidden, last_of(mlp));
}

struct Interests {
  Node vectors;  // elements: max_k for each row, zeros for those that it does not have
  Node missing;  // of each element: 0, or kNotThere
};

Interests add_interests(Graph& graph, ModelInputs& inputs, const MatchingSpec& model) {
  const config::MINDUserTower& tower = mind_in(inputs.config()).user_tower();
  const CapsuleOptions options = capsule_options_of(tower.capsule_config());
  const Node user = add_user_layers(graph, inputs.group(tower.input()), tower.user_mlp());
  const Node history = add_history_layers(graph, inputs.sequence(tower.history_input()).sequence,
                                          tower.hist_seq_mlp());
  graph.set_scope("user_tower.capsules");
  const Node low =
      graph.linear_without_bias(history, tower.capsule_config().high_dim(), Initial::normal(1.0f));
  const Space interests = add_fixed_sequence(graph, "interests of users", options.capsules);
  const auto mask = [&](float there, float missing) {
    return split_vectors(graph, capsule_mask(graph, low, options, there, missing), interests);
  };
  const Node is_there = mask(1.0f, 0.0f);
  const Node high = split_vectors(graph, capsules(graph, low, options), interests);
  Node x = graph.mix(is_there, {graph.concat({graph.repeat(user, interests), high})});
  x = graph.mix(is_there, {add_mlp(graph, "user_tower.interests", x, tower.concat_mlp())});
  if (model.output_dim > 0)
    x = add_logits_without_bias(graph, "user_tower.output", x, model.output_dim);
  return {add_similarity(graph, x, model), mask(0.0f, kNotThere)};
}

// The interests of each row, weighted by how similar they are to its item.
Node add_label_attention(Graph& graph, const Interests& interests, Node items, float power) {
  const Node own = items_of_rows(graph, items);
  const Node scores = graph.scale(graph.dot_with_row(own, interests.vectors), power);
  return graph.attention_pool(graph.sum({scores, interests.missing}), interests.vectors);
}

// In the order of matching_heads: ranks, and the vectors of both towers; or the vectors of users.
HeadLogits build_mind(Graph& graph, ModelInputs& inputs, const std::vector<HeadSpec>&) {
  const MatchingSpec model = matching_in(inputs.config());
  const Interests interests = add_interests(graph, inputs, model);
  if (!model.has_item_tower) return {{join_vectors(graph, interests.vectors)}};
  const Node items = add_matching_tower(graph, inputs, "item_tower", model.item, model);
  const Node users =
      add_label_attention(graph, interests, items, mind_in(inputs.config()).simi_pow());
  return {{add_ranks(graph, inputs, users, items, model)},
          {join_vectors(graph, interests.vectors)},
          {items}};
}

std::vector<GroupUse> groups_of_mind(const config::PipelineConfig& config) {
  std::vector<GroupUse> groups = groups_of_towers(config);
  groups.at(1).part = GroupPart::kSequence;  // the history
  return groups;
}

void check_capsules(const config::B2ICapsule& capsule) {
  const std::string path = "mind.user_tower.capsule_config.";
  EMBLEM_REQUIRE(capsule.max_k() > 0 && capsule.max_k() <= CapsuleOptions::kMost, path, "max_k is ",
                 capsule.max_k(), ", expected 1 to ", CapsuleOptions::kMost);
  EMBLEM_REQUIRE(capsule.high_dim() > 0, path, "high_dim is 0, expected at least 1");
  EMBLEM_REQUIRE(capsule.num_iters() > 0 && capsule.num_iters() <= 100, path, "num_iters is ",
                 capsule.num_iters(), ", expected 1 to 100");
  EMBLEM_REQUIRE(capsule.routing_logits_stddev() >= 0, path, "routing_logits_stddev is ",
                 capsule.routing_logits_stddev(), ", expected at least 0");
  EMBLEM_REQUIRE(capsule.squash_pow() >= 0, path, "squash_pow is ", capsule.squash_pow(),
                 ", expected at least 0");
  const std::string& method = capsule.routing_init_method();
  EMBLEM_REQUIRE(method == "normal" || method == "zeros", path, "routing_init_method is \"",
                 printable(method), "\", expected normal or zeros");
}

void require_one_ratio(const config::MLP& mlp, const char* field) {
  const auto& ratios = mlp.dropout_ratio();
  EMBLEM_REQUIRE(std::all_of(ratios.begin(), ratios.end(),
                             [&](float ratio) { return ratio == ratios.Get(0); }),
                 "mind.user_tower.", field,
                 ".dropout_ratio has different ratios, expected one for all layers but the last, "
                 "which has none");
}

void check_mind(const config::PipelineConfig& config, const FeatureLayout& layout) {
  check_matching(config, layout);
  const config::MIND& model = mind_in(config);
  const config::MINDUserTower& tower = model.user_tower();
  require_units(tower.user_mlp(), "mind.user_tower.user_mlp");
  require_one_ratio(tower.user_mlp(), "user_mlp");
  require_one_ratio(tower.hist_seq_mlp(), "hist_seq_mlp");
  EMBLEM_REQUIRE(!tower.hist_seq_mlp().has_bias() || !tower.hist_seq_mlp().bias(),
                 "mind.user_tower.hist_seq_mlp.bias is true, but layers of the history have no "
                 "biases; set bias: false");
  check_capsules(tower.capsule_config());
  EMBLEM_REQUIRE(model.simi_pow() >= 0, "mind.simi_pow is ", model.simi_pow(),
                 ", expected at least 0");
  for (const std::string& name :
       find_group(config.model_config(), tower.history_input())->feature_names())
    EMBLEM_REQUIRE(layout.find(name).settings.in_sequence, "feature \"", printable(name),
                   "\" of feature group \"", printable(tower.history_input()),
                   "\" is not a sequence, but mind reads sequences of it alone; move it to \"",
                   printable(tower.input()), "\"");
}

// Settings of layers where the only one is the last, which is linear.
void warn_of_only_layer(const config::MLP& mlp, const std::string& path,
                        std::vector<std::string>& warnings) {
  if (mlp.hidden_units_size() != 1) return;
  const auto warn = [&](bool given, const char* field) {
    if (given)
      warnings.push_back(cat(path, ".", field,
                             " has no effect: the last layer is linear, and it is the only one"));
  };
  warn(mlp.activation() != config::MLP().activation(), "activation");
  warn(mlp.dropout_ratio_size() > 0, "dropout_ratio");
  warn(mlp.use_bn(), "use_bn");
  warn(mlp.use_ln(), "use_ln");
}

void warn_of_mind(const config::ModelConfig& model, std::vector<std::string>& warnings) {
  const config::MINDUserTower& tower = model.mind().user_tower();
  warn_of_only_layer(tower.user_mlp(), "mind.user_tower.user_mlp", warnings);
  warn_of_only_layer(tower.hist_seq_mlp(), "mind.user_tower.hist_seq_mlp", warnings);
  if (!tower.user_mlp().bias())
    warnings.push_back("mind.user_tower.user_mlp.bias: the last layer has biases nevertheless");
  if (model.mind().user_tower().has_user_seq_combine())
    warnings.push_back(
        "mind.user_tower.user_seq_combine has no effect: concat_mlp reads the user and an interest "
        "side by side");
}

}  // namespace

ModelKind mind_model() {
  return {.name = "mind",
          .groups = groups_of_mind,
          .check = check_mind,
          .warn = warn_of_mind,
          .build_heads = build_mind};
}

}  // namespace emblem
