// GraphChainLayers that read one another's output are computed together in predictions on a CPU.
#include <gmock/gmock.h>

#include "core/math/random.h"
#include "core/threads/thread_pool.h"
#include "nn/graph.h"

namespace emblem {
namespace {

constexpr int64_t kMostRows = 500, kGraphChainInputs = 1100;

// Wide layers and narrow ones, one that two others read, and rows of more than one block of the
// inner dimension.
struct GraphChainLayers {
  Context context;
  Graph graph{5};
  Node x;
  std::vector<Node> outputs;

  explicit GraphChainLayers(const Context& on, DType type = DType::kF32) : context(on) {
    x = graph.input("x", kGraphChainInputs);
    const Node first = graph.linear(x, 300, Activation::kRelu);
    const Node second = graph.linear(first, 70, Activation::kTanh);
    const Node third = graph.linear(graph.linear(second, 33, Activation::kNone), 1);
    const Node beside = graph.linear(first, 45, Activation::kLeakyRelu);
    outputs = {first, third, beside};
    for (const Node output : outputs) graph.mark_output(output);
    graph.prepare(context, kMostRows, type, Graph::Purpose::kInference);
  }
  // All outputs of rows from `begin` on.
  std::vector<std::vector<float>> predict(int64_t begin, int64_t rows) {
    graph.set_rows(rows);
    for (int64_t i = 0; i < rows * kGraphChainInputs; ++i)
      graph.value(x).data[i] =
          random_normal(1, 0, static_cast<uint64_t>(begin * kGraphChainInputs + i));
    graph.forward(context, Phase::kEval, 0);
    std::vector<std::vector<float>> values;
    for (const Node output : outputs) {
      const View<float> view = graph.value(output);
      values.emplace_back(view.data, view.data + view.size());
    }
    return values;
  }
};

class ChainTest : public testing::TestWithParam<DType> {};

TEST_P(ChainTest, GivesTheSameAsLayersOneByOneWithAnyNumberOfThreadsAndRows) {
  GraphChainLayers one_by_one({}, GetParam());
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    GraphChainLayers chained({.threads = &pool}, GetParam());
    chained.graph.freeze();
    for (const int64_t rows : {1, 3, 20, 64, 500, 7, 1}) {
      SCOPED_TRACE(testing::Message() << threads << " threads, " << rows << " rows");
      EXPECT_EQ(chained.predict(0, rows), one_by_one.predict(0, rows));
    }
  }
}

TEST_P(ChainTest, ARowDoesNotDependOnTheRowsBesideIt) {
  ThreadPool pool(2);
  GraphChainLayers layers({.threads = &pool}, GetParam());
  layers.graph.freeze();
  const auto all = layers.predict(0, kMostRows);
  for (const int64_t rows : {1, 5, 30}) {
    const auto some = layers.predict(100, rows);
    for (size_t output = 0; output < all.size(); ++output) {
      const auto cols = static_cast<int64_t>(all[output].size()) / kMostRows;
      EXPECT_TRUE(
          std::equal(some[output].begin(), some[output].end(), all[output].begin() + 100 * cols))
          << rows << " rows, output " << output;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ChainTest, testing::Values(DType::kF32, DType::kBf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace emblem
