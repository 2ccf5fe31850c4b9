// Memory that is not there: a batch fails, the graph continues.
#include <gmock/gmock.h>

#include "core/math/random.h"
#include "core/memory/failing_new_test.h"
#include "nn/graph.h"

namespace emblem {
namespace {

class GraphMemoryTest : public AllocationTest {};
EMBLEM_TEST_ON_EVERY_DEVICE(GraphMemoryTest);

constexpr int64_t kGraphMemoryRows = 6, kCols = 8;

// Attention of a user to what it clicked: ops that keep memory for each element.
struct Model {
  const Context& context;
  Graph graph{7};
  Space clicks;
  Node user, click, label, logits;

  explicit Model(const Context& of) : context(of) {
    clicks = graph.add_sequence("clicks");
    user = graph.trained_input("user", kCols);
    click = graph.trained_input("click", kCols, clicks);
    label = graph.input("label", 1);
    MlpOptions options;
    options.hidden_units = {8, 4};
    options.dropout = {0.1f};
    graph.set_scope("encoder");
    const Node attended = graph.self_attention(click, click, click, 2);
    const Node scores = graph.linear(graph.din_mlp(user, graph.layer_norm(attended), options), 1);
    graph.set_scope("top");
    logits = graph.linear(graph.concat({user, graph.attention_pool(scores, attended),
                                        graph.segment_mean(graph.normalize(click))}),
                          1);
    graph.minimize(losses::BinaryCrossEntropy{}, logits, {.labels = label});
  }

  void prepare() { graph.prepare(context, kGraphMemoryRows); }

  void fill(Node node) {
    const View<float> values = graph.value(node);
    std::vector<float> x(values.size());
    for (size_t i = 0; i < x.size(); ++i) x[i] = random_normal(1, node.id, i);
    to_device(context, x, values);
  }

  using Results = std::vector<std::vector<float>>;
  // What a training step computes from rows of `length` elements each, `offsets` on the device.
  Results step(View<const int32_t> offsets, int32_t length) {
    graph.set_rows(kGraphMemoryRows);
    graph.set_elements(context, clicks, offsets, kGraphMemoryRows * length);
    for (const Node node : {user, click, label}) fill(node);
    graph.forward(context, Phase::kTrain, 3);
    graph.backward(context);
    return {{static_cast<float>(graph.loss(context))},
            to_host(context, graph.value(logits)),
            to_host(context, graph.parameter_gradients()),
            to_host(context, graph.gradient(user)),
            to_host(context, graph.gradient(click))};
  }
};

std::vector<int32_t> offsets_of(int32_t length) {
  std::vector<int32_t> offsets;
  for (int32_t r = 0; r <= kGraphMemoryRows; ++r) offsets.push_back(r * length);
  return offsets;
}

struct Batches {
  Buffer<int32_t> few, many;
  static constexpr int32_t kFew = 3, kMany = 40;

  explicit Batches(const Context& context)
      : few(Buffer<int32_t>::from(context, offsets_of(kFew))),
        many(Buffer<int32_t>::from(context, offsets_of(kMany))) {}
  Model::Results step_of_few(Model& model) const { return model.step(few.view(), kFew); }
  Model::Results step_of_many(Model& model) const { return model.step(many.view(), kMany); }
};

TEST_P(GraphMemoryTest, AStepWithoutMemoryLeavesTheGraphAsItWas) {
  const Batches batches(context_);
  Model whole(context_);
  whole.prepare();
  const auto few = batches.step_of_few(whole), many = batches.step_of_many(whole);
  std::unique_ptr<Model> model;
  const int64_t allocations = fail_each_allocation(
      failing_on(context_.device),
      [&] {
        model = std::make_unique<Model>(context_);
        model->prepare();
        for (int pass = 0; pass < 3; ++pass) batches.step_of_few(*model);  // recorded and replayed
      },
      [&] { return batches.step_of_many(*model); },
      [&](const std::optional<Model::Results>& result) {
        if (result) {
          EXPECT_EQ(*result, many);
        }
        EXPECT_EQ(batches.step_of_few(*model), few);
        for (int pass = 0; pass < 3; ++pass) EXPECT_EQ(batches.step_of_many(*model), many);
        EXPECT_EQ(batches.step_of_few(*model), few);
      });
  EXPECT_GT(allocations, 10);
}

TEST_P(GraphMemoryTest, APreparationWithoutMemoryCanBeRepeated) {
  const Batches batches(context_);
  Model whole(context_);
  whole.prepare();
  const auto many = batches.step_of_many(whole);
  std::unique_ptr<Model> model;
  const int64_t allocations = fail_each_allocation(
      failing_on(context_.device), [&] { model = std::make_unique<Model>(context_); },
      [&] {
        model->prepare();
        return true;
      },
      [&](const std::optional<bool>& result) {
        if (!result) model->prepare();
        EXPECT_EQ(batches.step_of_many(*model), many);
      });
  EXPECT_GT(allocations, 10);
}

TEST_P(GraphMemoryTest, MemoryThatComesBackIsUsedAgain) {
  const Batches batches(context_);
  Model whole(context_), model(context_);
  whole.prepare();
  model.prepare();
  const auto few = batches.step_of_few(whole), many = batches.step_of_many(whole);
  batches.step_of_few(model);
  for (int time = 0; time < 3; ++time) {
    const AllocationFault full(0, AllocationFault::kAll);
    EXPECT_ANY_THROW(batches.step_of_many(model));
    EXPECT_EQ(batches.step_of_few(model), few);
  }
  EXPECT_EQ(batches.step_of_many(model), many);
  EXPECT_EQ(batches.step_of_few(model), few);
}

}  // namespace
}  // namespace emblem
