// Graphs whose layers compute in int8 on a CPU.
#include <gmock/gmock.h>

#include <cmath>

#include "core/math/random.h"
#include "core/threads/thread_pool.h"
#include "kernels/input_ranges.h"
#include "nn/graph.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kGraphInt8Rows = 500, kGraphInt8Inputs = 70, kGraphInt8Units = 90;

struct GraphInt8Layers {
  Context context;
  Graph graph{5};
  Node x, logits;

  GraphInt8Layers(const Context& on, DType type) : context(on) {
    x = graph.input("x", kGraphInt8Inputs);
    const Node hidden = graph.linear(x, kGraphInt8Units, Activation::kRelu);
    logits = graph.linear(graph.linear(hidden, kGraphInt8Units, Activation::kNone), 1);
    graph.mark_output(logits);
    graph.prepare(context, kGraphInt8Rows, type, Graph::Purpose::kInference);
  }
  // Columns of very different sizes.
  std::vector<float> predict(int64_t begin, int64_t rows) {
    graph.set_rows(rows);
    for (int64_t i = 0; i < rows * kGraphInt8Inputs; ++i) {
      const float size = std::pow(10.0f, static_cast<float>(i % kGraphInt8Inputs % 5) - 3.0f);
      graph.value(x).data[i] =
          size * random_normal(1, 0, static_cast<uint64_t>(begin * kGraphInt8Inputs + i));
    }
    graph.forward(context, Phase::kEval, 0);
    const View<float> values = graph.value(logits);
    return {values.data, values.data + values.size()};
  }
};

GraphInt8Layers calibrated(const Context& context) {
  GraphInt8Layers wide({}, DType::kF32);
  wide.graph.record_inputs();
  wide.predict(0, kGraphInt8Rows);
  GraphInt8Layers narrow(context, DType::kInt8);
  narrow.graph.set_input_ranges(wide.graph.recorded_ranges());
  narrow.graph.freeze();
  return narrow;
}

TEST(Int8, IsCloseToFp32) {
  GraphInt8Layers narrow = calibrated({}), wide({}, DType::kF32);
  const auto values = narrow.predict(0, kGraphInt8Rows), expected = wide.predict(0, kGraphInt8Rows);
  double difference = 0, size = 0, bias = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    difference += std::pow(values[i] - expected[i], 2);
    size += std::pow(expected[i], 2);
    bias += values[i] - expected[i];
  }
  EXPECT_LT(std::sqrt(difference / size), 0.02);
  EXPECT_GT(std::sqrt(difference / size), 1e-5);  // it was rounded
  EXPECT_LT(std::abs(bias / kGraphInt8Rows), 0.1 * std::sqrt(difference / kGraphInt8Rows));
}

TEST(Int8, ValuesBeyondTheRangesAreLimited) {
  GraphInt8Layers narrow = calibrated({});
  narrow.graph.set_rows(1);
  for (const float far : {1e6f, 1e30f, -1e30f}) {
    for (int64_t i = 0; i < kGraphInt8Inputs; ++i) narrow.graph.value(narrow.x).data[i] = far;
    narrow.graph.forward({}, Phase::kEval, 0);
    EXPECT_LT(std::abs(narrow.graph.value(narrow.logits).data[0]), 1e4f) << far;
  }
}

TEST(Int8, GivesTheSameBytesWithAnyNumberOfThreadsAndForARowAlone) {
  ThreadPool threads(3);
  GraphInt8Layers one = calibrated({}), three = calibrated({.threads = &threads});
  const auto all = one.predict(0, kGraphInt8Rows);
  EXPECT_EQ(all, three.predict(0, kGraphInt8Rows));
  for (const int64_t row : {0, 1, 137, 499})
    EXPECT_EQ(one.predict(row, 1)[0], all[static_cast<size_t>(row)]) << row;
}

TEST(Int8, NeedsRangesAndNoTraining) {
  GraphInt8Layers without({}, DType::kInt8);
  EXPECT_THAT([&] { without.graph.freeze(); },
              ThrowsMessage<Error>(HasSubstr("has no ranges of inputs for int8")));
  Graph trained{1};
  trained.minimize(losses::BinaryCrossEntropy{}, trained.linear(trained.trained_input("x", 3), 1),
                   {.labels = trained.input("label", 1)});
  EXPECT_THAT([&] { trained.prepare({}, 10, DType::kInt8); },
              ThrowsMessage<Error>(HasSubstr("int8 is for inference on a CPU only")));
}

TEST(InputRecorder, FindsTheRangeOfAColumn) {
  constexpr int64_t kSeen = 20000;
  const float weight = 1;
  const auto ranges_of = [&](const auto& value_of) {
    std::vector<float> x(kSeen);
    for (int64_t r = 0; r < kSeen; ++r) x[static_cast<size_t>(r)] = value_of(r);
    InputRecorder recorder;
    for (int64_t r = 0; r < kSeen; r += 500) recorder.add({x.data() + r, 500, 1});
    recorder.add({x.data(), 0, 1});
    return recorder.ranges({&weight, 1, 1});
  };
  const auto normal = [](int64_t r) { return random_normal(3, 0, static_cast<uint64_t>(r)); };
  const InputRanges usual = ranges_of(normal);
  ASSERT_EQ(usual.inputs(), 1);
  EXPECT_LT(usual.low[0], -2.5f);
  EXPECT_GT(usual.high[0], 2.5f);
  EXPECT_LT(usual.high[0], 5.0f);
  EXPECT_NEAR(usual.mean[0], 0, 0.05);
  EXPECT_NEAR(usual.mean[0], usual.rounded_mean[0], 0.01);
  const InputRanges none = ranges_of([](int64_t) { return 0.0f; });
  EXPECT_EQ(none.high[0], 0.0f);
  EXPECT_EQ(none.rounded_mean[0], 0.0f);
  EXPECT_TRUE(InputRecorder().ranges({&weight, 1, 1}).empty());
}

// Steps of a column with small values are larger than they need be, so that its weights are not
// lost beside those of the other one.
TEST(InputRecorder, KeepsWeightsOfColumnsWithSmallValues) {
  constexpr int64_t kSeen = 2000, kCols = 40;
  std::vector<float> x(kSeen * kCols), weights(kCols);
  for (int64_t k = 0; k < kCols; ++k) {
    weights[static_cast<size_t>(k)] = random_normal(5, 0, static_cast<uint64_t>(k));
    for (int64_t r = 0; r < kSeen; ++r)
      x[static_cast<size_t>(r * kCols + k)] =
          (k == 0 ? 100.0f : 1.0f) * random_normal(4, 0, static_cast<uint64_t>(r * kCols + k));
  }
  weights[0] = 0.1f;
  InputRecorder recorder;
  recorder.add({x.data(), kSeen, kCols});
  const InputRanges ranges = recorder.ranges({weights.data(), 1, kCols});
  EXPECT_GT(ranges.high[1], 8.0f);
}

}  // namespace
}  // namespace emblem
