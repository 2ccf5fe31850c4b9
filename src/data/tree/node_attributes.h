// data/tree/node_attributes.h - attributes of the nodes of a tree out of those of its items.
#pragma once

#include <string>
#include <vector>

#include "data/tree/item_tree.h"

namespace emblem {

// `of_items` has a text for each leaf, in their order. Returns one for each node: that of a leaf as
// it is, and of another node what most leaves below it have. Among equally many the least, as
// numbers where both are whole ones. Empty texts, which are missing values, do not count.
std::vector<std::string> modes_of_nodes(const ItemTree& tree, std::vector<std::string> of_items);

// The same with the mean of the numbers of leaves, rounded where all of `of_items` are whole (half
// to even). Throws Error that begins with `what` for texts that are no numbers.
std::vector<std::string> means_of_nodes(const ItemTree& tree, std::vector<std::string> of_items,
                                        const std::string& what);

}  // namespace emblem
