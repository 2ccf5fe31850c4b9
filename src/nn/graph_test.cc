// How a graph is built, planned and run, whatever its ops compute.
#include "nn/graph.h"

#include <gmock/gmock.h>

#include <cmath>

#include "core/device/device_test.h"
#include "core/math/random.h"

namespace emblem {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::FloatNear;
using testing::Gt;
using testing::HasSubstr;
using testing::Pointwise;
using testing::ThrowsMessage;

class GraphTest : public DeviceTest {};
EMBLEM_TEST_ON_EVERY_DEVICE(GraphTest);

// A model with an op of every kind that sums over rows or draws random numbers.
struct GraphModel {
  Context context;
  Graph graph;
  Node dense, sparse, label, logits;

  GraphModel(const Context& context, int64_t max_rows, uint64_t seed = 42)
      : context(context), graph(seed) {
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
    graph.minimize(losses::BinaryCrossEntropy{}, logits, {.labels = label});
    graph.prepare(context, max_rows);
  }
  void fill(int64_t rows) {
    graph.set_rows(rows);
    for (const Node node : {dense, sparse}) {
      std::vector<float> x(rows * graph.cols(node));
      for (size_t i = 0; i < x.size(); ++i) x[i] = random_normal(1, node.id, i);
      to_device(context, x, graph.value(node));
    }
    std::vector<float> labels(rows);
    for (int64_t r = 0; r < rows; ++r) labels[r] = random_bits(2, 0, r) % 3 == 0 ? 1.0f : 0.0f;
    to_device(context, labels, graph.value(label));
  }
  // Everything that a training step changes.
  std::vector<std::vector<float>> step(int64_t rows, uint64_t draw = 7) {
    fill(rows);
    graph.forward(context, Phase::kTrain, draw);
    const std::vector<float> loss = {static_cast<float>(graph.loss(context))};
    auto values = to_host(context, graph.value(logits));
    graph.backward(context);
    return {loss, values, to_host(context, graph.parameter_gradients()),
            to_host(context, graph.gradient(sparse)), to_host(context, graph.statistics())};
  }
};

TEST(Graph, GivesTheSameBytesWithAnyNumberOfThreads) {
  constexpr int64_t kRows = 1500;
  const auto alone = GraphModel({}, kRows).step(kRows);
  for (const int threads : {2, 5}) {
    ThreadPool pool(threads);
    Context context;
    context.threads = &pool;
    EXPECT_EQ(GraphModel(context, kRows).step(kRows), alone) << threads << " threads";
  }
}

TEST_P(GraphTest, GivesTheSameBytesAgainAndAfterOtherBatchSizes) {
  GraphModel model(context_, 900);
  const auto first = model.step(500);
  for (const int64_t rows : {900, 1, 2, 3, 4, 5, 6, 7, 8, 9}) model.step(rows);
  const auto again = model.step(500);
  for (size_t part = 0; part + 1 < first.size(); ++part)
    EXPECT_EQ(first[part], again[part]) << part;  // statistics move on
}

TEST_P(GraphTest, StartsFromTheSameParametersOnEveryDevice) {
  GraphModel here({}, 4), there(context_, 4);
  EXPECT_EQ(to_host(context_, there.graph.parameters()), to_host({}, here.graph.parameters()));
  EXPECT_EQ(to_host(context_, there.graph.statistics()), to_host({}, here.graph.statistics()));
}

TEST_P(GraphTest, AgreesWithTheCpu) {
  constexpr int64_t kRows = 900;
  const auto expected = GraphModel({}, kRows).step(kRows),
             actual = GraphModel(context_, kRows).step(kRows);
  for (size_t part = 0; part < expected.size(); ++part)  // crossed sums cancel in some rows
    EXPECT_THAT(actual[part], Pointwise(FloatNear(5e-4f), expected[part])) << part;
}

// On a GPU a stream of its own has passes recorded and replayed; the default stream has not.
TEST_P(GraphTest, ReplayedPassesGiveTheSameBytesAsThoseThatAreEnqueuedOneByOne) {
  Context own = context_;
  const auto stream = use_own_stream(own);
  GraphModel enqueued(context_, 300), replayed(own, 300);
  uint64_t draw = 0;
  for (const int64_t rows : {300, 300, 200, 300, 200, 1, 0, 200, 300, 0, 1, 0, 1, 200}) {
    ++draw;
    EXPECT_EQ(replayed.step(rows, draw), enqueued.step(rows, draw)) << "batch " << draw;
    for (GraphModel* model : {&enqueued, &replayed})
      model->graph.forward(model->context, Phase::kEval, draw);
    EXPECT_EQ(to_host(own, replayed.graph.value(replayed.logits)),
              to_host(context_, enqueued.graph.value(enqueued.logits)));
  }
}

// Steps small enough that the loss falls from any initial values. A third of the labels is 1: the
// best constant prediction has a loss of 0.637.
TEST_P(GraphTest, LearnsWhenItFollowsItsGradient) {
  for (const uint64_t seed : {1, 2, 3}) {
    GraphModel model(context_, 256, seed);
    model.fill(256);
    for (int step = 0; step < 200; ++step) {
      model.graph.forward(context_, Phase::kTrain, step);
      model.graph.backward(context_);
      std::vector<float> w = to_host(context_, model.graph.parameters());
      const auto g = to_host(context_, model.graph.parameter_gradients());
      for (size_t i = 0; i < w.size(); ++i) w[i] -= 0.1f * g[i];
      to_device(context_, w, model.graph.parameters());
    }
    model.graph.forward(context_, Phase::kEval, 0);
    EXPECT_LT(model.graph.loss(context_), 0.55) << "seed " << seed;
  }
}

TEST_P(GraphTest, EvaluationsDoWithoutWhatOnlyTrainingNeeds) {
  Graph g(1);
  const Node x = g.input("x", 3), labels = g.input("labels", 1);
  const Node light = g.linear(x, 1), hidden = g.linear(x, 4), booster = g.linear(hidden, 1);
  const Node unread = g.linear(x, 2);
  Graph::Target target{.labels = labels};
  g.minimize(losses::BinaryCrossEntropy{}, light, target);
  target.training_only = true;
  g.minimize(losses::BinaryCrossEntropy{}, booster, target);
  g.distillation_loss(light, booster, Graph::Similarity::kSquaredError, target);
  g.prepare(context_, 2);
  const auto run = [&](float value, Phase phase) {
    g.set_rows(2);
    to_device(context_, std::vector<float>(6, value), g.value(x));
    to_device(context_, std::vector<float>{0.0f, 1.0f}, g.value(labels));
    g.forward(context_, phase, 0);
    std::vector<std::vector<float>> values;
    for (const Node node : {light, hidden, booster, unread})
      values.push_back(to_host(context_, g.value(node)));
    return values;
  };
  const auto trained = run(1.0f, Phase::kTrain), evaluated = run(2.0f, Phase::kEval);
  EXPECT_NE(evaluated[0], trained[0]);
  EXPECT_EQ(evaluated[1], trained[1]) << "not computed again";
  EXPECT_EQ(evaluated[2], trained[2]) << "not computed again";
  EXPECT_NE(evaluated[3], trained[3]);
  EXPECT_THAT(g.losses(context_), ElementsAre(Gt(0.0), 0.0, 0.0));
  EXPECT_EQ(run(1.0f, Phase::kTrain), trained);
  EXPECT_THAT(g.losses(context_), Each(Gt(0.0)));
}

TEST_P(GraphTest, AnEmptyBatchHasNoLossAndNoGradient) {
  GraphModel model(context_, 10);
  model.step(10);
  const auto result = model.step(0);
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
  int64_t end = 0;
  for (const Parameter& p : g.parameter_list()) {
    EXPECT_EQ(p.begin % 8, 0);
    EXPECT_GE(p.begin, end) << "parameters are one after the other";
    EXPECT_LT(p.begin, end + 8);
    end = p.begin + p.rows * p.cols;
    names.push_back(p.name + (p.is_weight ? "*" : ""));
  }
  for (const Parameter& p : g.statistic_list()) statistics.push_back(p.name);
  EXPECT_THAT(names, ElementsAre("deep.0.weight*", "deep.0.norm.weight", "deep.0.norm.bias",
                                 "deep.1.weight*", "deep.1.norm.weight", "deep.1.norm.bias",
                                 "head.0.weight*", "head.0.bias", "deep.2.weight*"));
  EXPECT_THAT(statistics, ElementsAre("deep.0.norm.running_mean", "deep.0.norm.running_var",
                                      "deep.1.norm.running_mean", "deep.1.norm.running_var"));
}

TEST(Graph, DrawsWeightsByXavierFromSeedAndName) {
  const auto weights = [](uint64_t seed, const std::string& scope) {
    Graph g(seed);
    g.set_scope(scope);
    g.linear(g.input("x", 200), 100);
    g.prepare({}, 1);
    return to_host(Context{}, g.parameters());
  };
  const auto w = weights(1, "a");
  EXPECT_EQ(w, weights(1, "a"));
  EXPECT_NE(w, weights(2, "a"));
  EXPECT_NE(w, weights(1, "b"));
  const double bound = std::sqrt(6.0 / 300.0);
  double square = 0.0;
  for (size_t i = 0; i < 20000; ++i) square += static_cast<double>(w[i]) * w[i] / 20000;
  EXPECT_NEAR(std::sqrt(square), bound / std::sqrt(3.0), 0.001);
  EXPECT_THAT(w, Each(testing::AllOf(testing::Ge(-bound), testing::Le(bound))));
  EXPECT_THAT(std::vector<float>(w.begin() + 20000, w.begin() + 20100), Each(0.0f));  // biases
}

TEST_P(GraphTest, InputsThatTheLossDoesNotSeeHaveNoGradient) {
  Graph g(1);
  const Node seen = g.trained_input("seen", 2), unseen = g.trained_input("unseen", 2),
             y = g.input("y", 1);
  g.linear(unseen, 3);
  g.minimize(losses::BinaryCrossEntropy{}, g.linear(seen, 1), {.labels = y});
  g.prepare(context_, 4);
  g.set_rows(4);
  for (const Node node : {seen, unseen, y})
    to_device(context_, std::vector<float>(g.value(node).size(), 1.0f), g.value(node));
  g.forward(context_, Phase::kTrain, 0);
  g.backward(context_);
  EXPECT_THAT(to_host(context_, g.gradient(unseen)), Each(0.0f));
  EXPECT_NE(to_host(context_, g.gradient(seen))[0], 0.0f);
  const auto gradients = to_host(context_, g.parameter_gradients());
  for (int64_t i = 0; i < 9; ++i)
    EXPECT_EQ(gradients[i], 0.0f) << "of the layer that leads nowhere";
}

TEST_P(GraphTest, SumsSeveralLosses) {
  Graph g(1);
  const Node a = g.trained_input("a", 1), b = g.trained_input("b", 1), y = g.input("y", 1);
  g.minimize(losses::BinaryCrossEntropy{}, a, {.labels = y});
  g.minimize(losses::BinaryCrossEntropy{}, g.sum({a, b}), {.labels = y});
  g.prepare(context_, 1);
  g.set_rows(1);
  to_device<float>(context_, {0.0f}, g.value(a));
  to_device<float>(context_, {0.0f}, g.value(b));
  to_device<float>(context_, {1.0f}, g.value(y));
  for (int run = 0; run < 2; ++run) {
    g.forward(context_, Phase::kTrain, 0);
    EXPECT_NEAR(g.loss(context_), 2 * std::log(2.0), 1e-9);
  }
  g.backward(context_);
  EXPECT_FLOAT_EQ(to_host(context_, g.gradient(a))[0], -1.0f);
  EXPECT_FLOAT_EQ(to_host(context_, g.gradient(b))[0], -0.5f);
}

TEST(Graph, CountsOperationsAndDescribesItself) {
  Graph g(1);
  const Node x = g.trained_input("x", 10), y = g.input("label", 1);
  g.set_scope("top");
  g.minimize(losses::BinaryCrossEntropy{}, g.linear(x, 1), {.labels = y});
  EXPECT_EQ(g.flops_per_row(), 20.0);
  EXPECT_EQ(g.values_per_row(), 10 + 1 + 1);
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
  fails([&] { g.dlrm_interaction({}, x, 4); },
        "'x' has 10 columns, which do not make whole vectors of dimension 4");
  fails([&] { g.dlrm_interaction(y, x, 5); }, "make the last layer before it 5 wide");
  fails([&] { g.fm(x, 3); }, "dimension 3");
  fails([&] { g.slice(x, 3, 11); }, "columns [3, 11) of 'x', which has 10");
  fails([&] { g.minimize(losses::BinaryCrossEntropy{}, x, {.labels = y}); },
        "has 10 columns, but 1 is needed");
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
  g.minimize(losses::BinaryCrossEntropy{}, logits, {.labels = y});
  fails([&] { g.prepare({}, 4, DType::kF16); }, "fp16 is computed on a GPU only");
  g.prepare({}, 4);
  Context cuda;
  cuda.device = Device::kCuda;
  fails([&] { g.forward(cuda, Phase::kEval, 0); }, "run on cuda, but prepared for cpu");
  fails([&] { g.prepare({}, 4); }, "twice");
  fails([&] { g.linear(x, 1); }, "after prepare()");
  fails([&] { g.set_rows(5); }, "a batch of 5 rows, but the graph was prepared for at most 4");
  g.set_rows(4);
  fails([&] { g.backward({}); }, "without a forward()");
  g.forward({}, Phase::kEval, 0);
  fails([&] { g.backward({}); }, "backward() of an evaluation");
  fails([&] { g.gradient(logits); }, "only those of trained inputs are kept");
}

}  // namespace
}  // namespace emblem
