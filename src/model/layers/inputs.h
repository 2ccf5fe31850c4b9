// model/layers/inputs.h - the feature groups of a model as nodes of its graph.
//
// All sparse features of DEEP groups come out of one lookup and those of WIDE groups out of
// another, each a single [rows, width] node; a group is the node itself or slices of it. So a
// feature of several groups is looked up once and its gradients add up. Features of SEQUENCE groups
// and of nested sequence_groups have tables of their own (model/lookup/lookup_groups.h).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/feature/features.h"
#include "config/proto/pipeline.pb.h"
#include "model/lookup/lookup_groups.h"
#include "nn/graph.h"

namespace emblem {

// Vectors of one width, side by side: [rows, count * dim].
struct Vectors {
  Node node;
  int64_t count = 0;
  int64_t dim = 0;
};

// A SEQUENCE group: what is looked for, [rows, n], and where, [elements, m].
struct SequenceInputs {
  Node query;  // id -1: the group has sequence features only
  Node sequence;
};

class ModelInputs {
 public:
  // Adds the input nodes to `graph`. wide_dim is the width of vectors in WIDE groups.
  ModelInputs(Graph& graph, const config::PipelineConfig& config, const FeatureLayout& layout,
              int64_t wide_dim);

  const config::PipelineConfig& config() const { return config_; }
  const FeatureLayout& layout() const { return layout_; }

  // The features of a DEEP group side by side, in the group's order, followed by the outputs of its
  // sequence encoders. Throws when there is no such group.
  Node group(const std::string& name);
  // The first group, whatever its name.
  Node first_group();
  // The embeddings of a group, which must all have the same dimension.
  Vectors vectors(const std::string& name);
  // The sum of all wide weights of a group, [rows, 1].
  Node wide_sum(const std::string& name);
  // The parts of a SEQUENCE group.
  SequenceInputs sequence(const std::string& name);

  const std::vector<LookupGroup>& lookups() const { return lookups_; }
  Node dense() const { return dense_; }
  // The numbers of each of FeatureLayout::sequences; id -1: it has none that the model reads.
  const std::vector<Node>& sequence_numbers() const { return numbers_; }
  // The space of each of FeatureLayout::sequences; id 0: the model does not read it.
  const std::vector<Space>& sequence_spaces() const { return spaces_; }
  Node labels() const { return labels_; }    // [rows, layout.labels]
  Node weights() const { return weights_; }  // [rows, layout.weight_fields]; id -1: there are none
  // The first key of a sparse feature in each row, or of a feature of items of each item, as an id
  // input; one node per feature.
  Node ids(const std::string& feature);
  // For the items of a matching model, if there are any: how often each is a candidate
  // (Batch::candidate_logs), and for which row (Batch::candidate_of), as an id input.
  Node candidate_logs();
  Node candidate_of();
  // Ids that were asked for: positions in ModelBatch::sparse and nodes.
  const std::map<int64_t, Node>& id_inputs() const { return ids_; }
  struct CandidateInputs {
    Node logs, of;  // id -1: not asked for
  };
  const CandidateInputs& candidate_inputs() const { return candidates_; }

 private:
  // Columns [begin, end) of a node.
  struct Piece {
    Node node;
    int64_t begin, end;
  };
  // A group's features in its order: what they are named in, and which of their tables they read.
  struct Members {
    std::vector<std::string> names;
    TableFamily family = TableFamily::kDeep;
    std::string suffix;
  };
  void add_inputs();
  Space space_of_items() const;
  const config::FeatureGroupConfig& find(const std::string& name) const;
  Members members_of(const config::FeatureGroupConfig& group) const;
  Piece piece(const std::string& feature, const Members& members);
  Piece embedded_numbers(const FeatureSpec& feature, Piece numbers);
  Node join(const std::vector<Piece>& pieces);
  Node join(const Members& members);
  Node build_group(const config::FeatureGroupConfig& group);
  SequenceInputs sequence_of(const Members& members, const std::string& group);
  std::vector<Node> encode(const config::FeatureGroupConfig& group);
  Node drop_features(const config::FeatureGroupConfig& group, Node x,
                     const std::vector<int64_t>& begins);

  Graph& graph_;
  const config::PipelineConfig& config_;
  const config::ModelConfig& model_;
  const FeatureLayout& layout_;
  std::vector<LookupGroup> lookups_;
  Node dense_, labels_, weights_;
  std::vector<Node> numbers_;
  std::vector<Space> spaces_;
  std::map<int64_t, Node> ids_;
  CandidateInputs candidates_;
  std::map<std::string, Node> groups_;      // built so far
  std::map<std::string, Node> embeddings_;  // embeddings of dense features with mlp or autodis
};

}  // namespace emblem
