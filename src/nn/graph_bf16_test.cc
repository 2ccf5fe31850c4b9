// Graphs that round the factors of their products to bf16 on a CPU.
#include <gmock/gmock.h>

#include <cmath>

#include "core/math/random.h"
#include "core/threads/thread_pool.h"
#include "nn/graph.h"

namespace emblem {
namespace {

constexpr int64_t kRows = 300, kInputs = 37, kUnits = 29;

float rounded(float value) { return Bf16::from(value).to_float(); }

struct Layers {
  Context context;
  Graph graph{5};
  Node x, label, logits;

  Layers(const Context& on, DType type) : context(on) {
    x = graph.trained_input("x", kInputs);
    label = graph.input("label", 1);
    logits = graph.linear(graph.linear(x, kUnits, Activation::kSigmoid), 1);
    graph.minimize(losses::BinaryCrossEntropy{}, logits, {.labels = label});
    graph.prepare(context, kRows, type);
  }
  void fill(int64_t begin, int64_t rows) {
    graph.set_rows(rows);
    for (int64_t i = 0; i < rows * kInputs; ++i)
      graph.value(x).data[i] = random_normal(1, 0, static_cast<uint64_t>(begin * kInputs + i));
    for (int64_t r = 0; r < rows; ++r)
      graph.value(label).data[r] = random_bits(2, 0, static_cast<uint64_t>(begin + r)) % 2;
  }
  std::vector<float> predict(int64_t begin, int64_t rows) {
    fill(begin, rows);
    graph.forward(context, Phase::kEval, 0);
    return copy(graph.value(logits));
  }
  // Logits, gradients of parameters and of x.
  std::vector<std::vector<float>> step() {
    fill(0, kRows);
    graph.forward(context, Phase::kTrain, 0);
    auto values = copy(graph.value(logits));
    graph.backward(context);
    return {values, copy(graph.parameter_gradients()), copy(graph.gradient(x))};
  }
  static std::vector<float> copy(View<const float> view) {
    return {view.data, view.data + view.size()};
  }
};

// The layer of one unit is a dot product of each row, in fp32.
TEST(Bf16OnCpu, IsAProductOfRoundedFactorsSummedInFp32) {
  Layers bf16({}, DType::kBf16), fp32({}, DType::kF32);
  const auto values = bf16.predict(0, kRows);
  fp32.fill(0, kRows);
  View<float> x = fp32.graph.value(fp32.x), parameters = fp32.graph.parameters();
  for (int64_t i = 0; i < x.size(); ++i) x.data[i] = rounded(x.data[i]);
  for (int64_t i = 0; i < kUnits * kInputs; ++i) parameters.data[i] = rounded(parameters.data[i]);
  ASSERT_EQ(fp32.graph.parameter_list()[0].cols, kInputs);
  fp32.graph.forward({}, Phase::kEval, 0);
  for (int64_t r = 0; r < kRows; ++r)
    ASSERT_NEAR(values[static_cast<size_t>(r)], fp32.graph.value(fp32.logits).data[r], 1e-5);
}

TEST(Bf16OnCpu, TrainsWithGradientsCloseToThoseOfFp32) {
  const auto bf16 = Layers({}, DType::kBf16).step(), fp32 = Layers({}, DType::kF32).step();
  for (size_t part = 0; part < bf16.size(); ++part) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < bf16[part].size(); ++i) {
      difference += std::pow(bf16[part][i] - fp32[part][i], 2);
      size += std::pow(fp32[part][i], 2);
    }
    const double relative = std::sqrt(difference / size);
    EXPECT_LT(relative, 0.01) << part;
    EXPECT_GT(relative, 1e-5) << part;  // it was rounded
  }
}

TEST(Bf16OnCpu, GivesTheSameBytesWithAnyNumberOfThreadsAndForARowAlone) {
  ThreadPool threads(3);
  Layers one({}, DType::kBf16), three({.threads = &threads}, DType::kBf16);
  EXPECT_EQ(one.step(), three.step());
  const auto all = one.predict(0, kRows);
  EXPECT_EQ(all, three.predict(0, kRows));
  for (const int64_t row : {0, 1, 137, 299})
    EXPECT_EQ(one.predict(row, 1)[0], all[static_cast<size_t>(row)]) << row;
}

}  // namespace
}  // namespace emblem
