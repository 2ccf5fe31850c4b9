#include "model/inputs.h"

#include <algorithm>

#include "config/groups.h"
#include "core/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using config::FeatureGroupConfig;

int64_t embedding_dim(const FeatureSpec& feature) { return embedding_dim_of(feature.config); }

const PlannedFeature& find_in(const LookupPlan& plan, const FeatureSpec& feature) {
  return *std::find_if(plan.features.begin(), plan.features.end(),
                       [&](const PlannedFeature& f) { return f.feature == &feature; });
}

}  // namespace

ModelInputs::ModelInputs(Graph& graph, const config::PipelineConfig& config,
                         const FeatureLayout& layout, int64_t wide_dim)
    : graph_(graph), config_(config), model_(config.model_config()), layout_(layout) {
  for (const FeatureSpec& feature : layout.features) {
    if (feature.kind != FeatureKind::kSparse) continue;
    if (is_in_group(model_, feature.name, config::DEEP)) {
      deep_.features.push_back({&feature, embedding_dim(feature), deep_.width});
      deep_.width += embedding_dim(feature);
    }
    if (is_in_group(model_, feature.name, config::WIDE)) {
      wide_.features.push_back({&feature, wide_dim, wide_.width});
      wide_.width += wide_dim;
    }
  }
  if (deep_.width > 0) deep_.node = graph.embedding_input("embeddings", deep_.width);
  if (wide_.width > 0) wide_.node = graph.embedding_input("wide_embeddings", wide_.width);
  if (layout.dense_cols > 0) dense_ = graph.input("dense", layout.dense_cols);
  label_ = graph.input("label", 1);
  if (config.data_config().sample_weight_fields_size() > 0) weights_ = graph.input("weight", 1);
}

const FeatureGroupConfig& ModelInputs::find(const std::string& name) const {
  std::vector<std::string> names;
  for (const auto& group : model_.feature_groups()) {
    if (group.group_name() == name) return group;
    names.push_back(group.group_name());
  }
  const auto nearest = nearest_name(name, names);
  throw Error(ErrorCode::kInvalidArgument,
              cat("model_config has no feature group \"", name, "\", which this model needs",
                  nearest ? cat("; did you mean that by \"", *nearest, "\"?") : std::string(),
                  nearest ? "" : "; add feature_groups { group_name: \"" + name + "\" ... }"));
}

std::vector<ModelInputs::Piece> ModelInputs::pieces(const FeatureGroupConfig& group) const {
  const bool wide = group.group_type() == config::WIDE;
  std::vector<Piece> out;
  for (const std::string& name : group.feature_names()) {
    const FeatureSpec& feature = layout_.find(name);
    Piece piece{};
    if (feature.kind == FeatureKind::kDense) {
      piece = {dense_, feature.dense_begin, feature.dense_begin + feature.dense_cols};
    } else {
      const LookupPlan& plan = wide ? wide_ : deep_;
      const PlannedFeature& at = find_in(plan, feature);
      piece = {plan.node, at.begin, at.begin + at.dim};
    }
    // Neighbours in the input stay one slice.
    if (!out.empty() && out.back().node.id == piece.node.id && out.back().end == piece.begin) {
      out.back().end = piece.end;
    } else {
      out.push_back(piece);
    }
  }
  EMBLEM_REQUIRE(!out.empty(), "feature group \"", group.group_name(),
                 "\" has no features; list them in feature_names");
  return out;
}

Node ModelInputs::join(std::vector<Piece> pieces) {
  std::vector<Node> nodes;
  for (const Piece& piece : pieces) {
    const bool whole = piece.begin == 0 && piece.end == graph_.cols(piece.node);
    nodes.push_back(whole ? piece.node : graph_.slice(piece.node, piece.begin, piece.end));
  }
  return nodes.size() == 1 ? nodes[0] : graph_.concat(nodes);
}

Node ModelInputs::group(const std::string& name) { return join(pieces(find(name))); }

Vectors ModelInputs::vectors(const std::string& name) {
  FeatureGroupConfig sparse = find(name);
  sparse.clear_feature_names();
  int64_t dim = 0;
  std::string first;
  for (const std::string& feature_name : find(name).feature_names()) {
    const FeatureSpec& feature = layout_.find(feature_name);
    if (feature.kind != FeatureKind::kSparse) continue;
    if (dim == 0) {
      dim = embedding_dim(feature);
      first = feature_name;
    }
    EMBLEM_REQUIRE(embedding_dim(feature) == dim, "feature group \"", name,
                   "\" needs one embedding_dim, but ", first, " has ", dim, " and ", feature_name,
                   " has ", embedding_dim(feature));
    sparse.add_feature_names(feature_name);
  }
  EMBLEM_REQUIRE(dim > 0, "feature group \"", name,
                 "\" has no feature with an embedding, which this model needs");
  return {join(pieces(sparse)), sparse.feature_names_size(), dim};
}

Node ModelInputs::wide_sum(const std::string& name) {
  const FeatureGroupConfig& wide = find(name);
  EMBLEM_REQUIRE(wide.group_type() == config::WIDE, "feature group \"", name,
                 "\" must have group_type: WIDE for this model");
  std::vector<Node> sums;
  FeatureGroupConfig sparse = wide, dense = wide;
  sparse.clear_feature_names();
  dense.clear_feature_names();
  for (const std::string& feature : wide.feature_names()) {
    (layout_.find(feature).kind == FeatureKind::kSparse ? sparse : dense)
        .add_feature_names(feature);
  }
  if (sparse.feature_names_size() > 0) sums.push_back(graph_.row_sum(join(pieces(sparse))));
  // A numeric feature's wide weight multiplies its value.
  if (dense.feature_names_size() > 0) sums.push_back(graph_.linear(join(pieces(dense)), 1));
  EMBLEM_REQUIRE(!sums.empty(), "feature group \"", name,
                 "\" has no features; list them in feature_names");
  return sums.size() == 1 ? sums[0] : graph_.sum(sums);
}

}  // namespace emblem
