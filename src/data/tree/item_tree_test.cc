#include "data/tree/item_tree.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "data/tree/node_attributes.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<int64_t> ids_up_to(int64_t count) {
  std::vector<int64_t> ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), int64_t{0});
  return ids;
}

std::vector<int64_t> ids_of(const ItemTree& tree, ItemTree::Nodes nodes) {
  std::vector<int64_t> ids;
  for (int32_t node = nodes.begin; node < nodes.end; ++node) ids.push_back(tree.id(node));
  return ids;
}

// TorchEasyRec's own example of ten items: inner nodes 10 to 24, then the items in reverse.
TEST(ItemTree, OfAnOrderIsTorchEasyRecs) {
  const ItemTree tree = ItemTree::of_order(ids_up_to(10), 2);
  EXPECT_EQ(tree.levels(), 5);
  EXPECT_THAT(ids_of(tree, tree.level(0)), ElementsAre(10));
  EXPECT_THAT(ids_of(tree, tree.level(1)), ElementsAre(11, 12));
  EXPECT_THAT(ids_of(tree, tree.level(3)), ElementsAre(17, 18, 19, 20, 21, 22, 23, 24));
  EXPECT_THAT(ids_of(tree, tree.leaves()), ElementsAre(9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
  EXPECT_THAT(ids_of(tree, tree.children(0)), ElementsAre(11, 12));
  // Of 5 to 9, the part 7 to 9 has 8 and 9 together, and 7 alone on two levels.
  EXPECT_THAT(ids_of(tree, tree.children(tree.level(3).begin)), ElementsAre(9, 8));
  EXPECT_THAT(ids_of(tree, tree.children(tree.level(3).begin + 1)), ElementsAre(7));
  EXPECT_EQ(tree.most_children(), 2);
}

TEST(ItemTree, HasEveryItemOnceAsALeafOfABalancedTree) {
  for (const int64_t clusters : {2, 3, 4, 7}) {
    for (const int64_t count : {2, 3, 4, 5, 8, 9, 27, 28, 64, 100, 257, 1000}) {
      std::vector<int64_t> items = ids_up_to(count);
      for (int64_t& id : items) id = 5 * id + 3;
      const ItemTree tree = ItemTree::of_order(items, clusters);
      int64_t levels = 1;
      for (int64_t size = 1; size < count; size *= clusters) ++levels;
      ASSERT_EQ(tree.levels(), levels) << count << " in " << clusters;
      std::vector<int64_t> leaves = ids_of(tree, tree.leaves());
      std::ranges::reverse(leaves);
      ASSERT_EQ(leaves, items);
      const auto below = tree.leaves_of_nodes();
      std::set<int64_t> ids;
      for (int64_t level = 0; level < levels; ++level) {
        const ItemTree::Nodes nodes = tree.level(level);
        int32_t least = tree.size(), most = 0, sum = 0;
        for (int32_t node = nodes.begin; node < nodes.end; ++node) {
          ids.insert(tree.id(node));
          ASSERT_LE(tree.children(node).count(), clusters);
          const int32_t size = below[static_cast<size_t>(node)].count();
          least = std::min(least, size);
          most = std::max(most, size);
          sum += size;
          for (int32_t child = tree.children(node).begin; child < tree.children(node).end; ++child)
            ASSERT_EQ(tree.parent(child), node);
          ASSERT_EQ(tree.id(node) > items.back(), level + 1 < levels);
        }
        ASSERT_EQ(sum, count);
        ASSERT_LE(most - least, 1) << "level " << level << " of " << count << " in " << clusters;
      }
      ASSERT_EQ(std::ssize(ids), tree.size());
    }
  }
}

TEST(ItemTree, IdsOfInnerNodesFollowTheirPlaceInAWholeTree) {
  const ItemTree tree = ItemTree::of_order(std::vector<int64_t>{40, 7, 12, 9}, 3);
  // Items 0, 1 and 2-3 of the order: codes 3, 2 and 1 below the root, whose code is 0.
  EXPECT_THAT(ids_of(tree, tree.level(0)), ElementsAre(41));
  EXPECT_THAT(ids_of(tree, tree.level(1)), ElementsAre(42, 43, 44));
  EXPECT_THAT(ids_of(tree, tree.leaves()), ElementsAre(9, 12, 7, 40));
}

TEST(ItemTree, RefusesWhatIsNoTree) {
  using Ids = std::vector<int64_t>;
  const auto of = [](Ids ids, int64_t clusters) {
    return [=] { ItemTree::of_order(ids, clusters); };
  };
  EXPECT_THAT(of({1}, 2),
              ThrowsMessage<Error>(HasSubstr("a tree of 1 items, expected at least 2")));
  EXPECT_THAT(of({1, 2}, 1), ThrowsMessage<Error>(HasSubstr("has 1 children")));
  EXPECT_THAT(of({1, -2}, 2), ThrowsMessage<Error>(HasSubstr("item -2 of a tree has a negative")));
  EXPECT_THAT(of({1, 2, 1}, 2), ThrowsMessage<Error>(HasSubstr("node 1 is in the tree twice")));
  EXPECT_THAT(of({1, INT64_MAX}, 2), ThrowsMessage<Error>(HasSubstr("leaves no ids")));
  EXPECT_THAT(
      [] {
        ItemTree({1, 2, 3, 4}, {-1, 0, 0, 1});
      },
      ThrowsMessage<Error>(HasSubstr("node 3 of the tree has no children")));
  EXPECT_THAT(
      [] {
        ItemTree({1, 2, 3, 4}, {-1, 0, 0, 2});
      },
      ThrowsMessage<Error>(HasSubstr("node 2 of the tree has no children")));
  EXPECT_THAT(
      [] {
        ItemTree({1, 2, 3}, {-1, 1, 0});
      },
      ThrowsMessage<Error>(HasSubstr("not in the order of parents")));
}

TEST(NodeAttributes, AreWhatMostItemsHave) {
  const ItemTree tree = ItemTree::of_order(ids_up_to(4), 2);  // leaves 3, 2 | 1, 0
  EXPECT_THAT(modes_of_nodes(tree, {"b", "b", "", "a"}),
              ElementsAre("b", "b", "a", "b", "b", "", "a"));
  // Equally many: the least, as numbers where they are.
  EXPECT_THAT(modes_of_nodes(tree, {"10", "9", "y", "x"}),
              ElementsAre("9", "9", "x", "10", "9", "y", "x"));
  EXPECT_THAT(modes_of_nodes(tree, {"", "", "", ""}), ElementsAre("", "", "", "", "", "", ""));
}

TEST(NodeAttributes, OrAreMeans) {
  const ItemTree tree = ItemTree::of_order(ids_up_to(4), 2);
  EXPECT_THAT(means_of_nodes(tree, {"1", "2", "4", ""}, "x"),
              ElementsAre("2", "2", "4", "1", "2", "4", ""));  // 7 / 3, and 1.5 to the even 2
  EXPECT_THAT(means_of_nodes(tree, {"1", "2.5", "", ""}, "x"),
              ElementsAre("1.75", "1.75", "", "1", "2.5", "", ""));
  EXPECT_THAT(
      [&] {
        means_of_nodes(tree, {"1", "2", "much", ""}, "price of an item");
      },
      ThrowsMessage<Error>(HasSubstr("price of an item is \"much\", expected a number")));
}

}  // namespace
}  // namespace emblem
