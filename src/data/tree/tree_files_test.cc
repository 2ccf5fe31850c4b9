#include "data/tree/tree_files.h"

#include <gmock/gmock.h>

#include "core/files/file.h"
#include "core/files/temp_folder_test.h"
#include "core/text/text.h"
#include "data/tree/item_table.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class TreeFilesTest : public testing::Test {
 protected:
  TreePaths paths(TreeEdges kind) const {
    return {.nodes = folder_.path(kNodeTable),
            .edges = folder_.path(kind == TreeEdges::kAncestors ? kEdgeTable : kPredictEdgeTable),
            .kind = kind};
  }

  void write_five_items() {
    tree_ = ItemTree::of_order(std::vector<int64_t>{4, 2, 7, 1, 3}, 2);
    std::vector<std::string> names;
    for (int32_t node = 0; node < tree_.size(); ++node) names.push_back(cat("n", tree_.id(node)));
    write_tree(folder_.path(""), tree_, {names}, ',');
  }

  void expect_refused(const std::string& name, const std::string& from, const std::string& to,
                      TreeEdges kind, const std::string& words) {
    write_five_items();
    std::string text = read_text_file(folder_.path(name));
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    folder_.write(name, text.replace(at, from.size(), to));
    EXPECT_THAT([&] { read_tree(paths(kind)); }, ThrowsMessage<Error>(HasSubstr(words)));
  }

  TempFolder folder_;
  ItemTree tree_;
};

TEST_F(TreeFilesTest, HaveTheLinesOfTorchEasyRec) {
  write_tree(folder_.path(""), ItemTree::of_order(std::vector<int64_t>{0, 1, 2}, 2),
             {{"a", "a", "b", "c", "", "a"}}, ',');
  EXPECT_EQ(read_text_file(folder_.path(kNodeTable)),
            "id:int64\tweight:float\tfeature:string\n"
            "-1\t1.0\t-1,3,a\n"
            "3\t1.0\t0,3,a\n"
            "4\t1.0\t1,4,a\n"
            "5\t1.0\t1,5,b\n"
            "2\t1.0\t2,2,c\n"
            "1\t1.0\t2,1,\n"
            "0\t1.0\t2,0,a\n");
  EXPECT_EQ(read_text_file(folder_.path(kEdgeTable)),
            "src_id:int64\tdst_id:int64\tweight:float\n"
            "2\t4\t1.0\n1\t4\t1.0\n0\t5\t1.0\n");
  EXPECT_EQ(read_text_file(folder_.path(kPredictEdgeTable)),
            "src_id:int64\tdst_id:int64\tweight:float\n"
            "-1\t3\t1.0\n3\t4\t1.0\n3\t5\t1.0\n4\t2\t1.0\n4\t1\t1.0\n5\t0\t1.0\n");
}

TEST_F(TreeFilesTest, GiveTheTreeBackFromEitherEdges) {
  write_five_items();
  for (const TreeEdges kind : {TreeEdges::kAncestors, TreeEdges::kChildren}) {
    const TreeNodes read = read_tree(paths(kind));
    ASSERT_EQ(read.tree.size(), tree_.size());
    EXPECT_EQ(read.tree.levels(), tree_.levels());
    for (int32_t node = 0; node < tree_.size(); ++node) {
      EXPECT_EQ(read.tree.id(node), tree_.id(node));
      EXPECT_EQ(read.tree.parent(node), tree_.parent(node));
      const std::string text = cat(",", tree_.id(node), ",n", tree_.id(node));
      EXPECT_THAT(read.attributes[static_cast<size_t>(node)], HasSubstr(text));
    }
  }
}

TEST_F(TreeFilesTest, MayHaveTheirLinesInAnyOrder) {
  folder_.write(kNodeTable,
                "id\tweight\tattrs\r\n5\t1\t2,5\r\n9\t1\t0,9\r\n8\t1.0\t1,8\r\n"
                "6\t1\t2,6\r\n7\t1\t1,7\r\n");
  folder_.write(kPredictEdgeTable, "src\tdst\tweight\n8\t6\t1\n9\t7\t1\n\n9\t8\t1\n7\t5\t1\n");
  const TreeNodes read = read_tree(paths(TreeEdges::kChildren));
  EXPECT_THAT(read.attributes, ElementsAre("0,9", "1,8", "1,7", "2,6", "2,5"));
  EXPECT_EQ(read.tree.id(4), 5);
  EXPECT_EQ(read.tree.parent(4), 2);
}

TEST_F(TreeFilesTest, WithErrorsAreNamedWithTheirLine) {
  const TreeEdges up = TreeEdges::kAncestors, down = TreeEdges::kChildren;
  const std::string nodes = kNodeTable, edges = kEdgeTable, predict = kPredictEdgeTable;
  expect_refused(nodes, "weight", "wait", up,
                 "node_table.txt, line 1: a column of the first line is \"wait:float\"");
  expect_refused(nodes, "8\t1.0", "eight\t1.0", up, "line 3: the id is \"eight\"");
  expect_refused(nodes, "8\t1.0\t0", "8\t2\t0", up, "line 3: the weight is \"2\", expected 1");
  expect_refused(nodes, "9\t1.0\t1,", "9\t1.0\thigh,", up, "the level of node 9, its first");
  expect_refused(nodes, "9\t1.0\t1,", "9\t1.0\t0,", up, "node 9 is on level 0, as node 8");
  expect_refused(nodes, "9\t1.0\t1,", "8\t1.0\t1,", up, "line 4: node 8 is there twice");
  expect_refused(edges, "3\t9\t", "3\t99\t", up, "node 99 is not in the table of nodes");
  expect_refused(edges, "3\t9\t", "9\t9\t", up,
                 "node 9 is on level 1, expected an item of level 3");
  expect_refused(edges, "3\t9\t", "3\t1\t", up, "node 1 is on level 3, expected one between");
  expect_refused(edges, "3\t9\t", "3\t10\t", up, "has the parents");
  expect_refused(edges, "3\t9\t1.0\n", "", up, "without the ancestor of item 3 on level 1");
  expect_refused(edges, "3\t9\t1.0\n", "3\t9\t1.0\n3\t10\t1.0\n", up, "has the ancestors 9 and 10");
  expect_refused(predict, "8\t9\t", "9\t9\t", down, "node 9 of level 1 is a child of 9 of level 1");
  expect_refused(predict, "8\t9\t1.0\n", "", down, "without the parent of node 9");
  expect_refused(predict, "-1\t8", "-1\t9", down, "node -1 stands before 9, but the root is 8");
  EXPECT_THAT(
      [&] { write_tree(folder_.path(""), tree_, {std::vector<std::string>(20, "a,b")}, ','); },
      ThrowsMessage<Error>(HasSubstr("is \"a,b\", which has")));
}

TEST_F(TreeFilesTest, AreMadeOfItemsByCategory) {
  folder_.write("items.csv", "sku,kind,brand,price\n3,b,x,1\n1,a,y,2\n2,b,x,4\n0,a,,\n");
  const DataSource source = guess_source(folder_.path("items.csv"));
  const ItemTableColumns columns{
      .id = "sku", .category = "kind", .attributes = {"brand"}, .mean_attributes = {"price"}};
  const TreeItems items = read_item_table(source, columns);
  const std::vector<size_t> order = order_by_category(items);
  EXPECT_THAT(order, ElementsAre(3, 1, 2, 0));  // a0 a1 b2 b3
  write_item_tree(items, columns, order, 2, ':', folder_.path(""));
  EXPECT_EQ(read_text_file(folder_.path(kNodeTable)),
            "id:int64\tweight:float\tfeature:string\n"
            "-1\t1.0\t-1:4:x:2\n"
            "4\t1.0\t0:4:x:2\n"
            "5\t1.0\t1:5:x:2\n"
            "6\t1.0\t1:6:y:2\n"
            "3\t1.0\t2:3:x:1\n"
            "2\t1.0\t2:2:x:4\n"
            "1\t1.0\t2:1:y:2\n"
            "0\t1.0\t2:0::\n");
  EXPECT_THAT([&] { read_item_table(source, {.id = "brand"}); },
              ThrowsMessage<Error>(HasSubstr("row 1: column \"brand\" is \"x\", expected the id")));
  EXPECT_THAT([&] { read_item_table(source, {.id = "skew"}); },
              ThrowsMessage<Error>(HasSubstr("skew")));
}

}  // namespace
}  // namespace emblem
