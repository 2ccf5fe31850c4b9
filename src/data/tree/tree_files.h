// data/tree/tree_files.h - trees as text files with TorchEasyRec's columns.
//
// Each begins with a line of names. Nodes: id, weight and attributes, which are the level, the id
// again, and what a feature of items may read; -1 stands before the root, as a copy of it on level
// -1. Edges of training: an item and each of its ancestors but the root. Edges of searches: a node
// and each of its children, with -1 before the root.
#pragma once

#include <string>
#include <vector>

#include "data/source/storage.h"
#include "data/tree/item_tree.h"

namespace emblem {

inline constexpr const char* kNodeTable = "node_table.txt";
inline constexpr const char* kEdgeTable = "edge_table.txt";
inline constexpr const char* kPredictEdgeTable = "predict_edge_table.txt";

enum class TreeEdges { kAncestors, kChildren };  // of training; of searches

struct TreePaths {
  std::string nodes, edges;
  Storage storage = nullptr;  // may be null for files on this machine
  TreeEdges kind = TreeEdges::kAncestors;
  char field_delimiter = '\t', attr_delimiter = ',';
};

struct TreeNodes {
  ItemTree tree;
  std::vector<std::string> attributes;  // of each node, as in the file: with level and id
};

// Throws Error with file and line for what is not a tree.
TreeNodes read_tree(const TreePaths& paths);

// Writes the three files into `folder`. `columns` are attributes: a text for each node. Throws
// Error for a text that has the delimiter.
void write_tree(const std::string& folder, const ItemTree& tree,
                const std::vector<std::vector<std::string>>& columns, char attr_delimiter);

}  // namespace emblem
