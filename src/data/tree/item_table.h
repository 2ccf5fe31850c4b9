// data/tree/item_table.h - items as a data set has them, and the tree that is made of them.
#pragma once

#include <string>
#include <vector>

#include "data/format/reader.h"
#include "data/tree/item_tree.h"

namespace emblem {

struct ItemTableColumns {
  std::string id;                            // whole numbers
  std::string category;                      // "": none
  std::vector<std::string> attributes;       // of other nodes: what most of their items have
  std::vector<std::string> mean_attributes;  // of other nodes: the mean
};

struct TreeItems {
  std::vector<int64_t> ids;
  std::vector<std::string> categories;               // empty where the column is not named
  std::vector<std::vector<std::string>> attributes;  // of each column, mean_attributes last
};

// Throws Error for columns that are missing or have lists, and for ids that are no whole numbers.
TreeItems read_item_table(const DataSource& source, const ItemTableColumns& columns);

// Positions of the items by category, as text, and then by id.
std::vector<size_t> order_by_category(const TreeItems& items);

// Vectors of items: all columns but `id` are their elements, in the order of the file.
struct ItemTableVectors {
  std::vector<int64_t> ids;
  std::vector<float> values;  // [ids, dim]
  int64_t dim = 0;
};
ItemTableVectors read_item_vectors(const DataSource& source, const std::string& id);

// Writes the tree of the items in `order` (ItemTree::of_order) into `folder`, as
// data/tree/tree_files.h says. Returns it.
ItemTree write_item_tree(const TreeItems& items, const ItemTableColumns& columns,
                         const std::vector<size_t>& order, int64_t clusters, char attr_delimiter,
                         const std::string& folder);

}  // namespace emblem
