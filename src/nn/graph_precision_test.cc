// Which rows of a 16-bit graph are padded; planned as for a GPU, without one.
#include <gtest/gtest.h>

#include "nn/graph_state.h"

namespace emblem {
namespace {

GraphState& plan(Graph& graph) {
  GraphState& state = graph_state(graph);
  state.precision = DType::kBf16;
  state.plan_types();
  state.plan_strides();
  return state;
}

// Whether all rows that products of more than one unit read and write begin at aligned places.
void expect_aligned_products(const GraphState& state) {
  for (const auto& op : state.ops) {
    if (std::string(op->kind()) != "linear" || op->output()->cols == 1) continue;
    EXPECT_EQ(op->inputs()[0]->stride % kAligned, 0) << op->output()->name << ", input";
    EXPECT_EQ(op->output()->stride % kAligned, 0) << op->output()->name << ", output";
  }
}

void add_loss(Graph& graph, Node x) {
  graph.minimize(losses::BinaryCrossEntropy{}, graph.linear(x, 1),
                 {.labels = graph.input("labels", 1)});
}

TEST(PaddedRows, ServeTheProductsOfMaskBlocks) {
  Graph graph(1);
  const Node x = graph.concat({graph.input("numbers", 13), graph.embedding_input("ids", 416)});
  const Node mask = graph.linear(graph.linear(x, 1287, Activation::kRelu), 429);
  const Node hidden = graph.linear(graph.multiply(graph.layer_norm(x), mask), 75);
  add_loss(graph, graph.layer_norm(hidden, Activation::kSigmoid));
  expect_aligned_products(plan(graph));
}

TEST(PaddedRows, ServeTheProductsOfGatesAndExperts) {
  Graph graph(1);
  const Node x = graph.embedding_input("ids", 64);
  std::vector<Node> experts;
  for (int k = 0; k < 3; ++k) experts.push_back(graph.linear(x, 21, Activation::kRelu));
  add_loss(graph, graph.mix(graph.softmax(graph.linear(x, 3)), experts));
  expect_aligned_products(plan(graph));
}

TEST(PaddedRows, ServeTheProductsBeforeElementwiseOps) {
  Graph graph(1);
  const Node x = graph.embedding_input("ids", 64), y = graph.linear(x, 77), z = graph.linear(x, 77);
  const Node gated = graph.scale_by_sigmoid(graph.scale(y, 0.5f), z, 2.0f);
  const Node sum = graph.sum({gated, graph.activation(z, Activation::kSilu)});
  add_loss(graph, graph.linear(graph.slice(sum, 3, 40), 5));
  expect_aligned_products(plan(graph));
}

// All rows of an elementwise op are equally long: those of embeddings, which are not padded,
// too.
TEST(PaddedRows, AreAsLongAsThoseOfEmbeddingsNextToThem) {
  Graph graph(1);
  const Node x = graph.embedding_input("ids", 13);
  add_loss(graph, graph.multiply(x, graph.linear(x, 13)));
  for (const auto& node : plan(graph).nodes)
    EXPECT_EQ(node.tensor->stride, node.tensor->cols) << node.tensor->name;
}

// Zeros would not stay zeros.
TEST(PaddedRows, DoNotPassThroughASigmoid) {
  Graph graph(1);
  const Node x = graph.linear(graph.embedding_input("ids", 16), 13);
  add_loss(graph, graph.sigmoid(x));
  for (const auto& node : plan(graph).nodes)
    EXPECT_EQ(node.tensor->stride, node.tensor->cols) << node.tensor->name;
}

// Products skip what no op reads.
TEST(Gradients, OfConcatenationsEndWithTheLastPartThatLearns) {
  Graph graph(1);
  const Node first = graph.embedding_input("first", 5), last = graph.embedding_input("last", 8);
  const Node all = graph.concat({first, last}),
             some = graph.concat({first, graph.stop_gradient(last)});
  add_loss(graph, graph.sum({graph.linear(all, 3), graph.linear(some, 3)}));
  GraphState& state = graph_state(graph);
  state.plan_backward();
  EXPECT_EQ(state.tensor(all, "test")->gradient_cols, 13);
  EXPECT_EQ(state.tensor(some, "test")->gradient_cols, 5);
  EXPECT_EQ(state.tensor(last, "test")->gradient_cols, 8);
}

}  // namespace
}  // namespace emblem
