// Sequences: nodes with a row for each element, whose number differs from batch to batch.
#include <gmock/gmock.h>

#include "core/device/device_test.h"
#include "core/math/random.h"
#include "nn/graph_state.h"

namespace emblem {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class SpacesTest : public DeviceTest {};
EMBLEM_TEST_ON_EVERY_DEVICE(SpacesTest);

// Layers over the elements of two sequences, with everything that padding could spoil.
struct GraphSpacesModel {
  Context context;
  Graph graph{42};
  Space clicks, buys;
  Node user, click, buy, label, logits;

  GraphSpacesModel(const Context& context, int64_t max_rows) : context(context) {
    clicks = graph.add_sequence("clicks");
    buys = graph.add_sequence("buys");
    user = graph.trained_input("user", 4);
    click = graph.trained_input("click", 6, clicks);
    buy = graph.embedding_input("buy", 5, buys);
    label = graph.input("label", 1);
    MlpOptions options;
    options.hidden_units = {8, 3};
    options.norm = MlpOptions::Norm::kBatch;
    options.dropout = {0.2f};
    graph.set_scope("clicks");
    const Node c = graph.mlp(graph.concat({graph.repeat(user, clicks), click}), options);
    graph.set_scope("buys");
    const Node b = graph.layer_norm(graph.linear(buy, 7), Activation::kTanh);
    graph.set_scope("top");
    logits = graph.linear(
        graph.concat({user, graph.segment_sum(c), graph.segment_mean(c), graph.segment_mean(b)}),
        1);
    graph.minimize(losses::BinaryCrossEntropy{}, logits, {.labels = label});
    graph.prepare(context, max_rows);
  }

  void set_lengths(Space sequence, const std::vector<int32_t>& lengths) {
    std::vector<int32_t> offsets = {0};
    for (const int32_t length : lengths) offsets.push_back(offsets.back() + length);
    const auto there = Buffer<int32_t>::from(context, offsets);
    graph.set_elements(context, sequence, there.view(), offsets.back());
    context.synchronize();
  }
  void fill(Node node) {
    const View<float> values = graph.value(node);
    std::vector<float> x(values.size());
    for (size_t i = 0; i < x.size(); ++i) x[i] = random_normal(1, node.id, i);
    to_device(context, x, values);
  }
  // Everything that a training step changes.
  std::vector<std::vector<float>> step(const std::vector<int32_t>& click_lengths,
                                       const std::vector<int32_t>& buy_lengths, uint64_t draw = 7) {
    const auto rows = static_cast<int64_t>(click_lengths.size());
    graph.set_rows(rows);
    fill(user);  // before the memory of sequences may grow
    set_lengths(clicks, click_lengths);
    set_lengths(buys, buy_lengths);
    fill(click);
    fill(buy);
    std::vector<float> labels(rows);
    for (int64_t r = 0; r < rows; ++r) labels[r] = static_cast<float>(r % 2);
    to_device(context, labels, graph.value(label));
    graph.forward(context, Phase::kTrain, draw);
    const std::vector<float> loss = {static_cast<float>(graph.loss(context))};
    auto values = to_host(context, graph.value(logits));
    graph.backward(context);
    return {loss,
            values,
            to_host(context, graph.parameter_gradients()),
            to_host(context, graph.gradient(user)),
            to_host(context, graph.gradient(click)),
            to_host(context, graph.gradient(buy)),
            to_host(context, graph.statistics())};
  }
};

std::vector<int32_t> lengths_of(int64_t rows, int32_t most, uint64_t stream) {
  std::vector<int32_t> lengths(rows);
  for (int64_t r = 0; r < rows; ++r)
    lengths[r] = static_cast<int32_t>(random_bits(5, stream, r) % (most + 1));
  return lengths;
}

void expect_near(const std::vector<std::vector<float>>& actual,
                 const std::vector<std::vector<float>>& expected, const std::string& what) {
  for (size_t part = 0; part < expected.size(); ++part) {
    ASSERT_EQ(actual[part].size(), expected[part].size()) << what << ", part " << part;
    for (size_t i = 0; i < expected[part].size(); ++i)
      ASSERT_NEAR(actual[part][i], expected[part][i], 2e-4) << what << ", " << part << " at " << i;
  }
}

TEST(Spaces, GiveTheSameBytesWithAnyNumberOfThreads) {
  const auto clicks = lengths_of(300, 30, 1), buys = lengths_of(300, 4, 2);
  const auto alone = GraphSpacesModel({}, 300).step(clicks, buys);
  for (const int threads : {2, 3, 5}) {
    ThreadPool pool(threads);
    Context context;
    context.threads = &pool;
    EXPECT_EQ(GraphSpacesModel(context, 300).step(clicks, buys), alone) << threads << " threads";
  }
}

// 33 to 90 elements are padded on a GPU, by up to 3 rows.
TEST_P(SpacesTest, AgreeWithTheCpuWhateverTheNumberOfElements) {
  for (const std::vector<int32_t>& lengths : {std::vector<int32_t>{0, 0, 0},
                                              {1, 0, 0},
                                              {0, 0, 1},
                                              {7, 7, 7},
                                              {30, 0, 3},
                                              {30, 3, 4},
                                              {60, 9, 4},
                                              {0, 90, 0},
                                              {600, 3, 0}}) {
    const auto expected = GraphSpacesModel({}, 3).step(lengths, {2, 1, 0}),
               actual = GraphSpacesModel(context_, 3).step(lengths, {2, 1, 0});
    expect_near(actual, expected, cat(lengths[0], " ", lengths[1], " ", lengths[2]));
  }
}

TEST_P(SpacesTest, GrowWithoutAChangeOfResults) {
  GraphSpacesModel model(context_, 40);
  const auto few = lengths_of(40, 3, 1), many = lengths_of(40, 50, 2);
  const auto first = model.step(few, few);
  const auto parameters = to_host(context_, model.graph.parameters());
  const auto grown = model.step(many, few);
  EXPECT_EQ(to_host(context_, model.graph.parameters()), parameters);
  auto fresh = GraphSpacesModel(context_, 40).step(many, few), again = model.step(few, few);
  for (size_t part = 0; part + 1 < first.size(); ++part) {  // statistics move on
    EXPECT_EQ(grown[part], fresh[part]) << part;
    EXPECT_EQ(again[part], first[part]) << part;
  }
}

TEST_P(SpacesTest, ReplayedPassesGiveTheSameBytesAsThoseThatAreEnqueuedOneByOne) {
  Context own = context_;
  const auto stream = use_own_stream(own);
  GraphSpacesModel enqueued(context_, 3), replayed(own, 3);
  uint64_t draw = 0;
  // 65 to 68 elements are one shape, and so are 69 to 72.
  for (const int32_t length : {68, 68, 65, 66, 72, 69, 70, 0, 1, 0, 1, 900, 66, 67, 68, 0, 1, 71}) {
    ++draw;
    EXPECT_EQ(replayed.step({length, 0, 0}, {1, 2, 3}, draw),
              enqueued.step({length, 0, 0}, {1, 2, 3}, draw))
        << "batch " << draw;
  }
}

TEST_P(SpacesTest, BatchesMayBeEmpty) {
  GraphSpacesModel model(context_, 4);
  model.step({1, 2, 3}, {3, 2, 1});
  const auto result = model.step({}, {});
  EXPECT_THAT(result[0], ElementsAre(0.0f));
  EXPECT_THAT(result[2], Each(0.0f));
}

TEST(Spaces, AreRoundedToASixteenthOfTheirPowerOfTwo) {
  for (const auto& [elements, rounded] : {std::pair<int64_t, int64_t>{0, 0},
                                          {1, 1},
                                          {31, 31},
                                          {32, 32},
                                          {33, 34},
                                          {63, 64},
                                          {65, 68},
                                          {1000, 1024},
                                          {1025, 1088},
                                          {100000, 102400}}) {
    EXPECT_EQ(round_elements(elements), rounded);
  }
}

TEST(Spaces, CountValuesAndOperationsPerElement) {
  GraphSpacesModel model({}, 2);
  const Graph& g = model.graph;
  EXPECT_EQ(g.values_per_element(model.buys), 5 + 7 + 7);
  EXPECT_EQ(g.values_per_row(), 4 + 1 + (3 + 3 + 7) + (4 + 3 + 3 + 7) + 1);
  EXPECT_EQ(g.flops_per_row(), 2.0 * 17);
  EXPECT_EQ(g.flops_per_element(model.buys, 10.0), 2.0 * 5 * 7 + 8 * 7 + 7);
  EXPECT_EQ(g.batch_flops_per_row(), g.flops_per_row());
  model.step({2, 4}, {0, 1});
  EXPECT_DOUBLE_EQ(g.batch_flops_per_row(), g.flops_per_row() +
                                                3.0 * g.flops_per_element(model.clicks, 3.0) +
                                                0.5 * g.flops_per_element(model.buys, 0.5));
  EXPECT_EQ(g.sequences(), (std::vector<Space>{model.clicks, model.buys}));
}

TEST(Spaces, RejectNodesOfDifferentSpaces) {
  Graph g(1);
  const Space clicks = g.add_sequence("clicks"), buys = g.add_sequence("buys");
  const Node user = g.input("user", 3), click = g.trained_input("click", 3, clicks),
             buy = g.input("buy", 3, buys);
  const auto fails = [](const auto& body, const std::string& message) {
    EXPECT_THAT(body, ThrowsMessage<Error>(HasSubstr(message)));
  };
  EXPECT_EQ(g.space(g.linear(click, 2)), clicks);
  EXPECT_EQ(g.space(g.repeat(user, buys)), buys);
  EXPECT_EQ(g.space(g.segment_sum(click)), Space{});
  fails(
      [&] {
        g.concat({user, click});
      },
      "concat: 'user' belongs to the batch, but 'click' to sequence 'clicks'; repeat or pool");
  fails([&] { g.multiply(click, buy); },
        "multiply: 'click' belongs to sequence 'clicks', but 'buy' to sequence 'buys'");
  fails(
      [&] {
        g.minimize(losses::BinaryCrossEntropy{}, g.linear(click, 1),
                   {.labels = g.input("y", 1, clicks)});
      },
      "losses are of the batch");
  fails([&] { g.segment_sum(user); }, "segment_sum: 'user' belongs to the batch; expected a node");
  fails([&] { g.repeat(click, buys); },
        "repeat: 'click' belongs to sequence 'clicks'; expected a node of the batch");
  fails([&] { g.input("x", 1, Space{3}); }, "x was given space 3, but the graph has 2 sequences");
  fails([&] { g.add_sequence("buys"); }, "two sequences are named 'buys'");
  fails([&] { g.window_means(click, {}); }, "0 windows");
  fails([&] { g.window_means(click, {3, 0}); }, "a window of length 0");
}

TEST(Spaces, RejectRunsOutOfOrder) {
  GraphSpacesModel model({}, 2);
  Graph& g = model.graph;
  const auto fails = [](const auto& body, const std::string& message) {
    EXPECT_THAT(body, ThrowsMessage<Error>(HasSubstr(message)));
  };
  const std::vector<int32_t> offsets = {0, 1, 3};
  const View<const int32_t> view{offsets.data(), 3};
  g.set_rows(2);
  fails([&] { g.value(model.click); },
        "the elements of sequence 'clicks' are not known; call set_elements() after set_rows()");
  g.set_elements({}, model.clicks, view, 3);
  fails([&] { g.forward({}, Phase::kEval, 0); }, "the elements of sequence 'buys' are not known");
  fails([&] { g.set_elements({}, model.buys, view, 4); }, "go from 0 to 3; expected 0 to 4");
  fails(
      [&] {
        g.set_elements({}, model.buys, {offsets.data(), 2}, 1);
      },
      "2 offsets of sequence 'buys' for 2 rows; expected 3");
  g.set_elements({}, model.buys, view, 3);
  EXPECT_EQ(g.value(model.click).rows, 3);
  g.forward({}, Phase::kEval, 0);
  g.set_rows(2);
  fails([&] { g.forward({}, Phase::kEval, 0); }, "are not known");
}

}  // namespace
}  // namespace emblem
