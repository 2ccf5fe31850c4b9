#include "model/layers/inputs.h"

#include <algorithm>
#include <cstdint>

#include "config/feature/items.h"
#include "config/feature/sequences.h"
#include "config/proto/pipeline.pb.h"
#include "core/text/text.h"
#include "emblem/error.h"
#include "model/layers/encoders.h"
#include "model/layers/groups.h"
#include "nn/graph.h"
#include "nn/matching.h"

namespace emblem {
namespace {

using config::FeatureGroupConfig;

// Vectors of a numeric feature, made by layers instead of tables: what `mlp {}` or `autodis {}` of
// it asks for.
struct DenseEmbedding {
  enum class Kind { kNone, kMlp, kAutoDis } kind = Kind::kNone;
  int64_t dim = 0;
  config::AutoDisEmbedding autodis;
};

DenseEmbedding dense_embedding_of(const FeatureSpec& feature) {
  const FeatureSettings& settings = feature.settings;
  DenseEmbedding embedding{.dim = settings.embedding_dim};
  if (settings.mlp) embedding.kind = DenseEmbedding::Kind::kMlp;
  if (settings.autodis) {
    embedding.kind = DenseEmbedding::Kind::kAutoDis;
    embedding.autodis = *settings.autodis;
  }
  return embedding;
}

// x is [rows, n]; out [rows, dim] (mlp) or [rows, n * dim] (autodis), named by the current scope.
Node add_dense_embedding(Graph& graph, Node x, const DenseEmbedding& embedding) {
  if (embedding.kind == DenseEmbedding::Kind::kMlp)
    return graph.linear_without_bias(x, embedding.dim,
                                     Initial::xavier_normal(graph.cols(x), embedding.dim));
  const config::AutoDisEmbedding& autodis = embedding.autodis;
  return graph.autodis(x, embedding.dim, autodis.num_channels(), autodis.temperature(),
                       autodis.keep_prob());
}

std::string node_name(const LookupGroup& group, const GroupedFeature& feature,
                      const FeatureLayout& layout) {
  if (group.is_stacked) return "embeddings." + feature.feature->name;
  if (group.sequence < 0)
    return group.family == TableFamily::kDeep   ? "embeddings"
           : group.family == TableFamily::kWide ? "wide_embeddings"
                                                : "query_embeddings";
  return "embeddings." + layout.sequences[static_cast<size_t>(group.sequence)].name;
}

}  // namespace

ModelInputs::ModelInputs(Graph& graph, const config::PipelineConfig& config,
                         const FeatureLayout& layout, int64_t wide_dim)
    : graph_(graph),
      config_(config),
      model_(config.model_config()),
      layout_(layout),
      lookups_(lookup_groups_of(model_, layout, wide_dim)) {
  add_inputs();
}

void ModelInputs::add_inputs() {
  numbers_.resize(layout_.sequences.size());
  spaces_.resize(layout_.sequences.size());
  for (const size_t s : sequences_read(model_, layout_)) {
    const SequenceSpec& sequence = layout_.sequences[s];
    spaces_[s] = graph_.add_sequence(sequence.name);
    if (sequence.dense_cols > 0)
      numbers_[s] = graph_.input("numbers." + sequence.name, sequence.dense_cols, spaces_[s]);
  }
  for (LookupGroup& group : lookups_) {
    Node shared;
    for (GroupedFeature& feature : group.features) {
      const int64_t sequence = feature.feature->sequence;
      if (group.is_stacked || shared.id < 0)
        shared =
            graph_.embedding_input(node_name(group, feature, layout_), group.width,
                                   sequence < 0 ? Space{} : spaces_[static_cast<size_t>(sequence)]);
      feature.node = shared;
    }
  }
  if (layout_.dense_cols > 0) dense_ = graph_.input("dense", layout_.dense_cols);
  labels_ = graph_.input("label", std::max<int64_t>(1, std::ssize(layout_.labels)));
  if (!layout_.weight_fields.empty())
    weights_ = graph_.input("weight", std::ssize(layout_.weight_fields));
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

ModelInputs::Members ModelInputs::members_of(const FeatureGroupConfig& group) const {
  Members members;
  members.names.assign(group.feature_names().begin(), group.feature_names().end());
  members.family = group.group_type() == config::DEEP   ? TableFamily::kDeep
                   : group.group_type() == config::WIDE ? TableFamily::kWide
                                                        : TableFamily::kSequence;
  members.suffix = group.embedding_name_suffix();
  return members;
}

ModelInputs::Piece ModelInputs::piece(const std::string& name, const Members& members) {
  const FeatureSpec& feature = layout_.find(name);
  if (feature.kind == FeatureKind::kDense) {
    const Node numbers =
        feature.sequence < 0 ? dense_ : numbers_[static_cast<size_t>(feature.sequence)];
    return embedded_numbers(
        feature, {numbers, feature.dense_begin, feature.dense_begin + feature.dense_cols});
  }
  for (const LookupGroup& group : lookups_) {
    if (group.family != members.family) continue;
    for (const GroupedFeature& at : group.features) {
      if (at.feature == &feature && at.suffix == members.suffix)
        return {at.node, at.begin, at.begin + at.dim};
    }
  }
  throw Error(ErrorCode::kInternal, cat("feature \"", name, "\" is in no lookup"));
}

ModelInputs::Piece ModelInputs::embedded_numbers(const FeatureSpec& feature, Piece numbers) {
  const DenseEmbedding embedding = dense_embedding_of(feature);
  if (embedding.kind == DenseEmbedding::Kind::kNone || feature.settings.in_sequence) return numbers;
  const auto [at, is_new] = embeddings_.try_emplace(feature.name);
  if (is_new) {
    graph_.set_scope("dense_embeddings." + feature.name);
    at->second = add_dense_embedding(graph_, join(std::vector{numbers}), embedding);
  }
  return {at->second, 0, graph_.cols(at->second)};
}

Node ModelInputs::join(const std::vector<Piece>& pieces) {
  std::vector<Piece> merged;
  for (const Piece& piece : pieces) {
    // Neighbours in the input stay one slice.
    if (!merged.empty() && merged.back().node.id == piece.node.id &&
        merged.back().end == piece.begin) {
      merged.back().end = piece.end;
    } else {
      merged.push_back(piece);
    }
  }
  std::vector<Node> nodes;
  for (const Piece& piece : merged) {
    const bool whole = piece.begin == 0 && piece.end == graph_.cols(piece.node);
    nodes.push_back(whole ? piece.node : graph_.slice(piece.node, piece.begin, piece.end));
  }
  return graph_.concat(nodes);
}

Node ModelInputs::join(const Members& members) {
  std::vector<Piece> pieces;
  for (const std::string& name : members.names) pieces.push_back(piece(name, members));
  return join(pieces);
}

Node ModelInputs::group(const std::string& name) {
  const auto found = groups_.find(name);
  if (found != groups_.end()) return found->second;
  return groups_[name] = build_group(find(name));
}

Node ModelInputs::first_group() {
  EMBLEM_REQUIRE(model_.feature_groups_size() > 0,
                 "model_config has no feature groups; add feature_groups { ... }");
  return group(model_.feature_groups(0).group_name());
}

Node ModelInputs::build_group(const FeatureGroupConfig& group) {
  EMBLEM_REQUIRE(group.feature_names_size() > 0 || group.sequence_encoders_size() > 0,
                 "feature group \"", group.group_name(),
                 "\" has no features; list them in feature_names");
  EMBLEM_REQUIRE(group.group_type() == config::DEEP || group.group_type() == config::WIDE,
                 "feature group \"", group.group_name(),
                 "\" has a group_type of sequences, but this model reads it as a DEEP group");
  const Members members = members_of(group);
  std::vector<int64_t> begins;
  int64_t width = 0;
  std::vector<Piece> pieces;
  for (const std::string& name : members.names) {
    pieces.push_back(piece(name, members));
    begins.push_back(width);
    width += pieces.back().end - pieces.back().begin;
  }
  std::vector<Node> parts;
  if (!pieces.empty()) parts.push_back(join(pieces));
  for (const Node encoded : encode(group)) {
    parts.push_back(encoded);
    begins.push_back(width);
    width += graph_.cols(encoded);
  }
  return drop_features(group, graph_.concat(parts), begins);
}

Node ModelInputs::drop_features(const FeatureGroupConfig& group, Node x,
                                const std::vector<int64_t>& begins) {
  if (!model_.has_variational_dropout() || group.group_type() != config::DEEP || begins.size() < 2)
    return x;
  const std::string& name = group.group_name();
  graph_.set_scope("variational_dropout." + name);
  return graph_.variational_dropout(x, begins, model_.variational_dropout().regularization_lambda(),
                                    name + "_feature_p_loss");
}

Vectors ModelInputs::vectors(const std::string& name) {
  const FeatureGroupConfig& group = find(name);
  EMBLEM_REQUIRE(group.sequence_encoders_size() == 0, "feature group \"", name,
                 "\" has sequence encoders, but this model reads single features of it; put them "
                 "into another group");
  const Members members = members_of(group);
  int64_t dim = 0;
  std::string first;
  std::vector<Piece> pieces;
  for (const std::string& feature_name : members.names) {
    const FeatureSpec& feature = layout_.find(feature_name);
    if (feature.kind != FeatureKind::kSparse &&
        dense_embedding_of(feature).kind == DenseEmbedding::Kind::kNone)
      continue;
    pieces.push_back(piece(feature_name, members));
    const int64_t cols = pieces.back().end - pieces.back().begin;
    if (dim == 0) {
      dim = cols;
      first = feature_name;
    }
    EMBLEM_REQUIRE(cols == dim, "feature group \"", name, "\" needs one embedding_dim, but ", first,
                   " has ", dim, " and ", feature_name, " has ", cols);
  }
  EMBLEM_REQUIRE(dim > 0, "feature group \"", name,
                 "\" has no feature with an embedding, which this model needs");
  if (std::ssize(pieces) == std::ssize(members.names))
    return {this->group(name), std::ssize(pieces), dim};
  return {join(pieces), std::ssize(pieces), dim};
}

Node ModelInputs::wide_sum(const std::string& name) {
  const FeatureGroupConfig& wide = find(name);
  EMBLEM_REQUIRE(wide.group_type() == config::WIDE, "feature group \"", name,
                 "\" must have group_type: WIDE for this model");
  std::vector<Node> sums;
  Members sparse = members_of(wide), dense = sparse;
  sparse.names.clear();
  dense.names.clear();
  for (const std::string& feature : wide.feature_names()) {
    (layout_.find(feature).kind == FeatureKind::kSparse ? sparse : dense).names.push_back(feature);
  }
  if (!sparse.names.empty()) sums.push_back(graph_.row_sum(join(sparse)));
  // A numeric feature's wide weight multiplies its value.
  if (!dense.names.empty())
    sums.push_back(graph_.linear(join(dense), 1, Activation::kNone, {.weight = Initial::zeros()}));
  EMBLEM_REQUIRE(!sums.empty(), "feature group \"", name,
                 "\" has no features; list them in feature_names");
  return sums.size() == 1 ? sums[0] : graph_.sum(sums);
}

SequenceInputs ModelInputs::sequence(const std::string& name) {
  const FeatureGroupConfig& group = find(name);
  EMBLEM_REQUIRE(group.group_type() == config::SEQUENCE, "feature group \"", name,
                 "\" must have group_type: SEQUENCE for this model");
  return sequence_of(members_of(group), name);
}

SequenceInputs ModelInputs::sequence_of(const Members& members, const std::string& group) {
  Members query = members, sequence = members;
  query.names.clear();
  sequence.names.clear();
  for (const std::string& feature : members.names)
    (layout_.find(feature).sequence < 0 ? query : sequence).names.push_back(feature);
  EMBLEM_REQUIRE(!sequence.names.empty(), "feature group \"", group,
                 "\" has no sequence features, which its encoders need");
  SequenceInputs inputs;
  if (!query.names.empty()) inputs.query = join(query);
  inputs.sequence = join(sequence);
  return inputs;
}

std::vector<Node> ModelInputs::encode(const FeatureGroupConfig& group) {
  std::vector<SequenceGroup> nested = sequence_groups_of(model_);
  std::erase_if(nested, [&](const SequenceGroup& each) {
    return !each.nested || each.owner != group.group_name();
  });
  std::vector<Node> encoded;
  for (const config::SeqEncoderConfig& encoder : group.sequence_encoders()) {
    const std::string input = encoder_input_of(encoder);
    const auto named = std::find_if(nested.begin(), nested.end(), [&](const SequenceGroup& each) {
      return input.empty() ? nested.size() == 1 : each.name == input;
    });
    EMBLEM_REQUIRE(named != nested.end(), "feature group \"", group.group_name(),
                   "\": a sequence encoder reads the group \"", input,
                   "\", which is not one of its sequence_groups");
    const Members members{named->features, TableFamily::kSequence, named->suffix};
    encoded.push_back(add_encoder(graph_, cat("encoders.", group.group_name(), ".", named->name),
                                  sequence_of(members, named->name), encoder));
  }
  return encoded;
}

Node ModelInputs::ids(const std::string& feature) {
  const FeatureSpec& spec = layout_.find(feature);
  EMBLEM_REQUIRE(spec.kind == FeatureKind::kSparse &&
                     (spec.sequence < 0 || spec.sequence == items_in(layout_)),
                 "feature \"", feature,
                 "\" groups rows, but it has no id per row; use an id_feature");
  const auto [at, is_new] = ids_.try_emplace(spec.sparse_index);
  if (is_new)
    at->second = id_input_of(graph_, feature, spec.sequence < 0 ? Space{} : space_of_items());
  return at->second;
}

Space ModelInputs::space_of_items() const {
  const int64_t items = items_in(layout_);
  return items < 0 ? Space{} : spaces_[static_cast<size_t>(items)];
}

Node ModelInputs::candidate_logs() {
  if (candidates_.logs.id < 0)
    candidates_.logs = graph_.input("candidate_logs", 1, space_of_items());
  return candidates_.logs;
}

Node ModelInputs::candidate_of() {
  if (candidates_.of.id < 0) candidates_.of = id_input_of(graph_, "candidate_of", space_of_items());
  return candidates_.of;
}

}  // namespace emblem
