#include "data/tree/item_tree.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "core/math/part.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// A node of a tree that is being cut: items [begin, end) of the order.
struct CutNode {
  int64_t code, begin, end;
};

std::vector<CutNode> children_of(const CutNode& node, int64_t clusters) {
  std::vector<CutNode> children;
  for (int64_t part = clusters; part-- > 0;) {
    const int64_t begin = part_begin(node.begin, node.end, part, clusters),
                  end = part_begin(node.begin, node.end, part + 1, clusters);
    if (begin < end) children.push_back({clusters * node.code + clusters - part, begin, end});
  }
  return children;
}

void check_items(std::span<const int64_t> items, int64_t clusters) {
  EMBLEM_REQUIRE(clusters >= 2, "a node of a tree has ", clusters,
                 " children, expected at least 2");
  EMBLEM_REQUIRE(items.size() >= 2, "a tree of ", items.size(), " items, expected at least 2");
  // Nodes of a tree are numbers of 32 bits; so are products of parts of 64.
  EMBLEM_REQUIRE(std::ssize(items) < (int64_t{1} << 28) && clusters < (int64_t{1} << 28),
                 "a tree of ", items.size(), " items in ", clusters,
                 " clusters is too large: expected less than ", int64_t{1} << 28, " of each");
  const int64_t least = *std::ranges::min_element(items);
  EMBLEM_REQUIRE(least >= 0, "item ", least, " of a tree has a negative id, expected at least 0");
}

}  // namespace

ItemTree::ItemTree(std::vector<int64_t> ids, std::vector<int32_t> parents)
    : ids_(std::move(ids)), parents_(std::move(parents)) {
  EMBLEM_REQUIRE(ids_.size() == parents_.size() && ids_.size() >= 2, "a tree of ", ids_.size(),
                 " nodes with ", parents_.size(), " parents, expected as many, and at least 2");
  EMBLEM_REQUIRE(parents_[0] == -1, "the first node of a tree is not its root");
  for (size_t node = 1; node < parents_.size(); ++node)
    EMBLEM_REQUIRE(parents_[node] >= std::max(parents_[node - 1], 0) &&
                       parents_[node] < static_cast<int32_t>(node),
                   "node ", ids_[node], " of a tree is not in the order of parents");
  std::unordered_set<int64_t> seen;
  for (const int64_t id : ids_)
    EMBLEM_REQUIRE(seen.insert(id).second, "node ", id, " is in the tree twice");
  find_levels();
}

void ItemTree::find_levels() {
  const int32_t nodes = size();
  children_.assign(ids_.size() + 1, nodes);
  for (int32_t node = nodes; --node > 0;)
    children_[static_cast<size_t>(parents_[static_cast<size_t>(node)])] = node;
  first_ = {0, 1};
  while (first_.back() < nodes) {
    const int32_t begin = first_[first_.size() - 2], end = first_.back();
    // A node without children: where those of the next one with some begin.
    for (int32_t node = begin; node < end; ++node)
      EMBLEM_REQUIRE(children_[static_cast<size_t>(node)] < nodes, "node ", id(node),
                     " of the tree has no children, but is on level ", first_.size() - 2,
                     "; all items are on the last level");
    int32_t next = end;
    while (next < nodes && parents_[static_cast<size_t>(next)] < end) ++next;
    first_.push_back(next);
    for (int32_t node = begin; node < end; ++node)
      most_children_ = std::max<int64_t>(most_children_, children(node).count());
  }
}

ItemTree ItemTree::of_order(std::span<const int64_t> items, int64_t clusters) {
  check_items(items, clusters);
  const int64_t largest = *std::ranges::max_element(items);
  std::vector<int64_t> ids;
  std::vector<int32_t> parents;
  std::vector<CutNode> level = {{0, 0, std::ssize(items)}}, next;
  std::vector<int32_t> level_parents = {-1}, next_parents;
  const auto is_leaf = [](const CutNode& node) { return node.end - node.begin == 1; };
  while (true) {
    const bool is_last = std::ranges::all_of(level, is_leaf);
    next.clear();
    next_parents.clear();
    for (size_t i = 0; i < level.size(); ++i) {
      const CutNode& node = level[i];
      if (!is_last) {
        EMBLEM_REQUIRE(largest < std::numeric_limits<int64_t>::max() - node.code, "item ", largest,
                       " leaves no ids for the nodes of the tree; use smaller ids");
        for (const CutNode& child : children_of(node, clusters)) {
          next.push_back(child);
          next_parents.push_back(static_cast<int32_t>(ids.size()));
        }
      }
      parents.push_back(level_parents[i]);
      ids.push_back(is_last ? items[static_cast<size_t>(node.begin)] : largest + 1 + node.code);
    }
    if (is_last) break;
    level.swap(next);
    level_parents.swap(next_parents);
  }
  return ItemTree(std::move(ids), std::move(parents));
}

std::vector<ItemTree::Nodes> ItemTree::leaves_of_nodes() const {
  std::vector<Nodes> below(ids_.size());
  for (int32_t node = size(); node-- > 0;) {
    const bool is_leaf = node >= leaves().begin;
    const Nodes of = is_leaf ? Nodes{node, node + 1} : children(node);
    below[static_cast<size_t>(node)] = is_leaf ? of
                                               : Nodes{below[static_cast<size_t>(of.begin)].begin,
                                                       below[static_cast<size_t>(of.end) - 1].end};
  }
  return below;
}

}  // namespace emblem
