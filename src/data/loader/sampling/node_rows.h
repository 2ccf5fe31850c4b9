// data/loader/sampling/node_rows.h - rows of a batch with nodes of a tree in place of their items.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>

#include "config/feature/tree_items.h"
#include "data/batch.h"
#include "data/tree/tree_files.h"

namespace emblem {

// Const methods may run concurrently.
class NodeRows {
 public:
  // A row of a batch. Of what features of items read it has the values of a node; -1: of its own
  // item.
  struct Row {
    uint32_t row = 0;
    int32_t node = -1;
  };

  // Reads a tree with the attributes that the sampler names. Throws Error for nodes that do not
  // have them.
  NodeRows(const config::DataConfig& data, const FeatureLayout& layout,
           const TreeSamplerSpec& sampler, const TreePaths& paths);

  const ItemTree& tree() const { return tree_; }
  const std::string& path() const { return path_; }  // of the nodes

  // The leaf that has the item of a row of a batch. Throws Error where there is none. Of several
  // with the same key, of which the constructor warns, the first.
  int32_t leaf_of(const Batch& batch, size_t row) const;

  // Overwrites `out` with rows of `batch`; labels and weights are those of the rows.
  void gather(const Batch& batch, std::span<const Row> rows, Batch& out) const;

 private:
  // Numbers that a feature has in a row.
  struct Numbers {
    int64_t begin = 0, cols = 0;
  };

  void find_columns(const FeatureLayout& layout, const NodeFeatures& features);
  void find_leaves();
  Batch columns_of_items(const Batch& batch) const;
  void put_numbers(const Batch& items, Batch& out) const;

  std::string path_, id_name_;
  ItemTree tree_;
  size_t id_ = 0;                 // in Batch::sparse
  std::vector<size_t> sparse_;    // of features of items: positions in Batch::sparse
  std::vector<Numbers> numbers_;  // likewise in a row of Batch::dense
  int64_t dense_cols_ = 0;
  Batch nodes_;  // a row for each node: its columns are those of items alone
  std::unordered_map<int64_t, int32_t> leaves_;  // by key
};

}  // namespace emblem
