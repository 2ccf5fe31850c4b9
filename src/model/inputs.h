// model/inputs.h - the feature groups of a model as nodes of its graph.
//
// All sparse features of DEEP groups come out of one lookup and those of WIDE groups out of
// another, each a single [rows, width] node; a group is the node itself or slices of it. So a
// feature of several groups is looked up once and its gradients add up.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/features.h"
#include "config/pipeline.pb.h"
#include "nn/graph.h"

namespace emblem {

// One feature of a lookup: which keys of a Batch, and where its vector starts in the lookup's
// output.
struct PlannedFeature {
  const FeatureSpec* feature = nullptr;
  int64_t dim = 0;
  int64_t begin = 0;
};

struct LookupPlan {
  std::vector<PlannedFeature> features;
  int64_t width = 0;
  Node node;  // id -1 when there is no such feature
};

// Vectors of one width, side by side: [rows, count * dim].
struct Vectors {
  Node node;
  int64_t count = 0;
  int64_t dim = 0;
};

class ModelInputs {
 public:
  // Adds the input nodes to `graph`. wide_dim is the width of vectors in WIDE groups.
  ModelInputs(Graph& graph, const config::PipelineConfig& config, const FeatureLayout& layout,
              int64_t wide_dim);

  const config::PipelineConfig& config() const { return config_; }

  // The features of a group side by side, in the group's order. Throws when there is no such group.
  Node group(const std::string& name);
  // The sparse features of a group, which must all have the same dimension.
  Vectors vectors(const std::string& name);
  // The sum of all wide weights of a group, [rows, 1].
  Node wide_sum(const std::string& name);

  const LookupPlan& deep() const { return deep_; }
  const LookupPlan& wide() const { return wide_; }
  Node dense() const { return dense_; }
  Node label() const { return label_; }
  Node weights() const { return weights_; }

 private:
  // Columns [begin, end) of an input node.
  struct Piece {
    Node node;
    int64_t begin, end;
  };
  const config::FeatureGroupConfig& find(const std::string& name) const;
  std::vector<Piece> pieces(const config::FeatureGroupConfig& group) const;
  Node join(std::vector<Piece> pieces);

  Graph& graph_;
  const config::PipelineConfig& config_;
  const config::ModelConfig& model_;
  const FeatureLayout& layout_;
  LookupPlan deep_, wide_;
  Node dense_, label_, weights_;
};

}  // namespace emblem
