// data/tree/item_tree.h - items as the leaves of a tree: what a search for the best ones goes down,
// level by level.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace emblem {

// Nodes are numbered level by level from the root, which is 0, and the children of a node follow
// each other. All leaves are on the last level; they are the items. Immutable.
class ItemTree {
 public:
  // A range of nodes.
  struct Nodes {
    int32_t begin = 0, end = 0;
    int32_t count() const { return end - begin; }
  };

  ItemTree() = default;

  // Nodes with their ids, each the child of `parents[node]`; the root's is -1. Throws Error unless
  // they are numbered as above, ids are distinct and all leaves are on one level below the root.
  ItemTree(std::vector<int64_t> ids, std::vector<int32_t> parents);

  // The tree of items in an order: they are cut into `clusters` parts (core/math/part.h), and each
  // part again, until each has one item. A part that has one before the others do is the only child
  // of its node on every level that follows. As in TorchEasyRec later parts come first, and a node
  // that is no item has an id behind the largest of an item: this + 1 + its place in a tree of
  // which each node has `clusters` children. Items: at least 2, with distinct ids of at least 0.
  static ItemTree of_order(std::span<const int64_t> items, int64_t clusters);

  int64_t levels() const { return static_cast<int64_t>(first_.size()) - 1; }
  Nodes level(int64_t level) const {
    return {first_[static_cast<size_t>(level)], first_[static_cast<size_t>(level) + 1]};
  }
  Nodes leaves() const { return level(levels() - 1); }
  int32_t size() const { return static_cast<int32_t>(ids_.size()); }
  int64_t most_children() const { return most_children_; }

  int64_t id(int32_t node) const { return ids_[static_cast<size_t>(node)]; }
  int32_t parent(int32_t node) const { return parents_[static_cast<size_t>(node)]; }
  Nodes children(int32_t node) const {
    return {children_[static_cast<size_t>(node)], children_[static_cast<size_t>(node) + 1]};
  }
  // The leaves below each node.
  std::vector<Nodes> leaves_of_nodes() const;

 private:
  void find_levels();

  std::vector<int64_t> ids_;
  std::vector<int32_t> parents_;
  std::vector<int32_t> first_;     // of each level; the number of nodes behind the last
  std::vector<int32_t> children_;  // the first of each node; likewise
  int64_t most_children_ = 0;
};

}  // namespace emblem
