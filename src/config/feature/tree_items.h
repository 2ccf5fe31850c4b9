// config/feature/tree_items.h - batches with nodes of a tree of items: rows are added that have the
// features of nodes in place of those of a row's item.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/feature/features.h"
#include "config/feature/items.h"

namespace emblem {

inline constexpr const char* kTreeSampler = "data_config.tdm_sampler";

// data_config.tdm_sampler.
struct TreeSamplerSpec {
  // The table of nodes; the edges between items and ancestors, or those between nodes and children,
  // which are read in place of the first where they are given: they are fewer.
  std::string nodes_path, ancestors_path, children_path;
  std::vector<std::string> attr_fields;  // columns of a node's attributes: level, id, ...
  char attr_delimiter = ',', field_delimiter = '\t';
  std::string item_id_field;
  std::vector<int64_t> samples;  // negatives of each level for each row; none of the root
  double remain_ratio = 1.0;     // share of the levels between root and items that a batch has
  enum class Remain { kUniform, kArithmetic, kReciprocal };
  Remain remain = Remain::kUniform;  // which of them: all alike, or lower ones more often

  int64_t levels() const { return static_cast<int64_t>(samples.size()); }
  // What a row of the data becomes at most: itself, its ancestors, its negatives.
  int64_t rows_of_row() const;
};

// None where rows are not sampled in this way. Throws Error for settings that are missing or out of
// range.
std::optional<TreeSamplerSpec> tree_sampler_of(const config::DataConfig& data);

// Rows of a batch for which `rows` were read, at most. Throws Error where they cannot be counted.
int64_t rows_with_samples(const config::DataConfig& data, int64_t rows);

// The nodes as items that have its attributes.
ItemSamplerSpec items_of(const TreeSamplerSpec& sampler);

// The features of nodes in `layout`, which are those of items, too.
struct NodeFeatures {
  std::vector<size_t> places;  // in FeatureLayout::features
  int64_t id = 0;              // the one that tells nodes from another, in Batch::sparse
};
NodeFeatures features_of_nodes(const TreeSamplerSpec& sampler, const FeatureLayout& layout);

}  // namespace emblem
