// How a graph is built, planned and run, whatever its ops compute.
#include "nn/graph.h"

#include <gmock/gmock.h>

#include <cmath>

#include "core/random.h"
#include "core/thread_pool.h"

namespace emblem {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<float> copy_of(View<float> values) {
  return {values.data, values.data + values.size()};
}

// A model with an op of every kind that sums over rows or draws random numbers.
struct Model {
  Graph graph{42};
  Node dense, sparse, label, logits;

  explicit Model(int64_t max_rows, const Context& context = {}) {
    MlpOptions bottom, top;
    bottom.hidden_units = {32, 8};
    bottom.norm = MlpOptions::Norm::kBatch;
    bottom.dropout = {0.1f};
    top.hidden_units = {40, 16};
    top.norm = MlpOptions::Norm::kLayer;
    top.activation = Activation::kSilu;
    dense = graph.input("dense", 13);
    sparse = graph.trained_input("sparse", 40);
    label = graph.input("label", 1);
    graph.set_scope("bottom");
    const Node x = graph.mlp(dense, bottom);
    graph.set_scope("cross");
    const Node crossed = graph.cross_v1(graph.dlrm_interaction(x, sparse, 8), 2);
    graph.set_scope("top");
    logits = graph.linear(graph.mlp(crossed, top), 1);
    graph.binary_cross_entropy(logits, label);
    graph.prepare(context, max_rows);
  }
  void fill(int64_t rows) {
    graph.set_rows(rows);
    for (const Node node : {dense, sparse}) {
      const View<float> x = graph.value(node);
      for (int64_t i = 0; i < x.size(); ++i) x.data[i] = random_normal(1, node.id, i);
    }
    for (int64_t r = 0; r < rows; ++r)
      graph.value(label).data[r] = random_bits(2, 0, r) % 3 == 0 ? 1.0f : 0.0f;
  }
  // Everything a training step leaves behind.
  std::vector<std::vector<float>> step(const Context& context, int64_t rows) {
    fill(rows);
    graph.forward(context, Phase::kTrain, 7);
    const std::vector<float> loss = {static_cast<float>(graph.loss(context))};
    auto values = copy_of(graph.value(logits));
    graph.backward(context);
    return {loss, values, copy_of(graph.parameter_gradients()), copy_of(graph.gradient(sparse)),
            copy_of(graph.statistics())};
  }
};

TEST(Graph, GivesTheSameBytesWithAnyNumberOfThreads) {
  constexpr int64_t kRows = 1500;
  const auto alone = Model(kRows).step({}, kRows);
  for (const int threads : {2, 5}) {
    ThreadPool pool(threads);
    Context context;
    context.threads = &pool;
    EXPECT_EQ(Model(kRows, context).step(context, kRows), alone) << threads << " threads";
  }
}

TEST(Graph, GivesTheSameBytesAgainAndAfterOtherBatchSizes) {
  Model model(900);
  const auto first = model.step({}, 500);
  model.step({}, 900);
  model.step({}, 1);
  const auto again = model.step({}, 500);
  for (size_t part = 0; part + 1 < first.size(); ++part)
    EXPECT_EQ(first[part], again[part]) << part;  // statistics move on
}

TEST(Graph, LearnsWhenItFollowsItsGradient) {
  Model model(256);
  double first = 0.0;
  for (int step = 0; step < 60; ++step) {
    model.fill(256);
    model.graph.forward({}, Phase::kTrain, step);
    if (step == 0) first = model.graph.loss({});
    model.graph.backward({});
    const View<float> w = model.graph.parameters(), g = model.graph.parameter_gradients();
    for (int64_t i = 0; i < w.size(); ++i) w.data[i] -= 0.3f * g.data[i];
  }
  model.graph.forward({}, Phase::kEval, 0);
  EXPECT_LT(model.graph.loss({}), 0.6 * first);
}

TEST(Graph, AnEmptyBatchHasNoLossAndNoGradient) {
  Model model(10);
  const auto result = model.step({}, 0);
  EXPECT_THAT(result[0], ElementsAre(0.0f));
  EXPECT_THAT(result[2], Each(0.0f));
}

TEST(Graph, NamesParametersByScopeAndLayer) {
  Graph g(1);
  const Node x = g.input("x", 3);
  MlpOptions options;
  options.hidden_units = {4, 2};
  options.norm = MlpOptions::Norm::kBatch;
  g.set_scope("deep");
  const Node y = g.mlp(x, options);
  g.set_scope("head");
  g.linear(y, 1);
  g.set_scope("deep");
  g.linear_without_bias(y, 5);
  std::vector<std::string> names, statistics;
  int64_t begin = 0;
  for (const Parameter& p : g.parameter_list()) {
    EXPECT_EQ(p.begin, begin) << "parameters lie one behind the other";
    begin += p.rows * p.cols;
    names.push_back(p.name + (p.is_weight ? "*" : ""));
  }
  for (const Parameter& p : g.statistic_list()) statistics.push_back(p.name);
  EXPECT_THAT(names, ElementsAre("deep.0.weight*", "deep.0.norm.weight", "deep.0.norm.bias",
                                 "deep.1.weight*", "deep.1.norm.weight", "deep.1.norm.bias",
                                 "head.0.weight*", "head.0.bias", "deep.2.weight*"));
  EXPECT_THAT(statistics, ElementsAre("deep.0.norm.running_mean", "deep.0.norm.running_var",
                                      "deep.1.norm.running_mean", "deep.1.norm.running_var"));
}

TEST(Graph, DrawsWeightsFromSeedAndNameWithXaviersDeviation) {
  const auto weights = [](uint64_t seed, const std::string& scope) {
    Graph g(seed);
    g.set_scope(scope);
    g.linear(g.input("x", 200), 100);
    g.prepare({}, 1);
    return copy_of(g.parameters());
  };
  const auto w = weights(1, "a");
  EXPECT_EQ(w, weights(1, "a"));
  EXPECT_NE(w, weights(2, "a"));
  EXPECT_NE(w, weights(1, "b"));
  double square = 0.0;
  for (int64_t i = 0; i < 20000; ++i) square += static_cast<double>(w[i]) * w[i] / 20000;
  EXPECT_NEAR(std::sqrt(square), std::sqrt(2.0 / 300), 0.002);
  EXPECT_THAT(std::vector<float>(w.begin() + 20000, w.end()), Each(0.0f));
}

TEST(Graph, InputsThatTheLossDoesNotSeeHaveNoGradient) {
  Graph g(1);
  const Node seen = g.trained_input("seen", 2), unseen = g.trained_input("unseen", 2),
             y = g.input("y", 1);
  g.linear(unseen, 3);
  g.binary_cross_entropy(g.linear(seen, 1), y);
  g.prepare({}, 4);
  g.set_rows(4);
  for (const Node node : {seen, unseen, y})
    std::fill_n(g.value(node).data, g.value(node).size(), 1.0f);
  g.forward({}, Phase::kTrain, 0);
  g.backward({});
  EXPECT_THAT(copy_of(g.gradient(unseen)), Each(0.0f));
  EXPECT_NE(g.gradient(seen).data[0], 0.0f);
  const View<float> gradients = g.parameter_gradients();
  for (int64_t i = 0; i < 9; ++i)
    EXPECT_EQ(gradients.data[i], 0.0f) << "of the layer that leads nowhere";
}

TEST(Graph, SumsSeveralLosses) {
  Graph g(1);
  const Node a = g.trained_input("a", 1), b = g.trained_input("b", 1), y = g.input("y", 1);
  g.binary_cross_entropy(a, y);
  g.binary_cross_entropy(g.sum({a, b}), y);
  g.prepare({}, 1);
  g.set_rows(1);
  g.value(a).data[0] = g.value(b).data[0] = 0.0f;
  g.value(y).data[0] = 1.0f;
  g.forward({}, Phase::kTrain, 0);
  EXPECT_NEAR(g.loss({}), 2 * std::log(2.0), 1e-9);
  g.backward({});
  EXPECT_FLOAT_EQ(g.gradient(a).data[0], -1.0f);
  EXPECT_FLOAT_EQ(g.gradient(b).data[0], -0.5f);
}

TEST(Graph, CountsOperationsAndDescribesItself) {
  Graph g(1);
  const Node x = g.trained_input("x", 10), y = g.input("label", 1);
  g.set_scope("top");
  g.binary_cross_entropy(g.linear(x, 1), y);
  EXPECT_EQ(g.flops_per_row(), 20.0);
  EXPECT_EQ(g.describe(),
            "0 trained input 'x' [10]\n1 input 'label' [1]\n2 linear 'top.0' [1] of "
            "0\nbinary_cross_entropy of 2, 1\n");
}

TEST(Graph, RejectsShapesThatDoNotFit) {
  Graph g(1);
  const Node x = g.input("x", 10), y = g.input("y", 4);
  const auto fails = [](const auto& body, const std::string& message) {
    EXPECT_THAT(body, ThrowsMessage<Error>(HasSubstr(message)));
  };
  fails([&] { g.sum({x, y}); }, "sum: 'x' has 10 columns and 'y' 4; they must be equal");
  fails([&] { g.multiply(x, y); }, "they must be equal");
  fails([&] { g.dot_interaction(x, 4); },
        "'x' has 10 columns, which do not make whole vectors of dimension 4");
  fails([&] { g.dlrm_interaction(y, x, 5); }, "make the last layer before it 5 wide");
  fails([&] { g.fm(x, 3); }, "dimension 3");
  fails([&] { g.slice(x, 3, 11); }, "columns [3, 11) of 'x', which has 10");
  fails([&] { g.binary_cross_entropy(x, y); },
        "has 10 columns, but logits, labels and weights have 1");
  fails([&] { g.dropout(x, 1.0f); }, "the ratio is 1");
  fails([&] { g.linear(x, 0); }, "0 columns");
  fails([&] { g.linear(Node{}, 1); }, "linear was given node -1");
  fails([&] { g.concat({}); }, "no parts");
  MlpOptions options;
  options.hidden_units = {4, 2, 1};
  options.dropout = {0.1f, 0.2f};
  fails([&] { g.mlp(x, options); }, "2 dropout ratios for 3 layers");
}

TEST(Graph, RejectsRunsOutOfOrder) {
  Graph g(1);
  const Node x = g.trained_input("x", 2), y = g.input("y", 1);
  const auto fails = [](const auto& body, const std::string& message) {
    EXPECT_THAT(body, ThrowsMessage<Error>(HasSubstr(message)));
  };
  const Node logits = g.linear(x, 1);
  fails([&] { g.value(x); }, "before prepare()");
  fails([&] { g.forward({}, Phase::kEval, 0); }, "before prepare()");
  g.binary_cross_entropy(logits, y);
  Context cuda;
  cuda.device = Device::kCuda;
  fails([&] { g.prepare(cuda, 4); }, "not available on cuda yet; use --device cpu");
  g.prepare({}, 4);
  fails([&] { g.prepare({}, 4); }, "twice");
  fails([&] { g.linear(x, 1); }, "after prepare()");
  fails([&] { g.set_rows(5); }, "a batch of 5 rows, but the graph was prepared for 4");
  g.set_rows(4);
  fails([&] { g.backward({}); }, "without a forward()");
  fails([&] { g.gradient(logits); }, "only those of trained inputs are kept");
}

}  // namespace
}  // namespace emblem
