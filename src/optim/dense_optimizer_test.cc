#include "optim/dense_optimizer.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/random.h"
#include "core/thread_pool.h"

namespace emblem {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;
using testing::ThrowsMessage;

View<float> view(std::vector<float>& values) {
  return {values.data(), static_cast<int64_t>(values.size())};
}
View<const float> view(const std::vector<float>& values) {
  return {values.data(), static_cast<int64_t>(values.size())};
}

std::vector<float> random_values(int64_t count, uint64_t stream) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = random_normal(5, stream, i);
  return values;
}

std::vector<float> copy_of(View<float> values) {
  return {values.data, values.data + values.size()};
}

const Rule kRules[] = {Sgd{}, Momentum{}, AdaGrad{}, Adam{}, Ftrl{}};

// The rule applied one weight after the other, with the states of a weight side by side.
void plain_update(const Rule& rule, std::vector<float>& weights,
                  const std::vector<float>& gradients, std::vector<std::vector<float>>& states) {
  std::visit(
      [&](const auto& r) {
        if constexpr (!std::decay_t<decltype(r)>::kRowWise) {
          for (size_t i = 0; i < weights.size(); ++i)
            r(gradients[i], weights[i], states[i].data(), 1);
        }
      },
      rule);
}

TEST(DenseOptimizer, AgreesWithTheRuleAppliedWeightByWeight) {
  constexpr int64_t kSize = 40001;  // several chunks, the last one odd
  ThreadPool pool(2);
  Context context;
  context.threads = &pool;
  for (const Rule& rule : kRules) {
    DenseOptimizer optimizer(context, {rule, 0.1f, 0.25f, 0.0f}, kSize, {}, 0.0f);
    auto weights = random_values(kSize, 1), expected = weights;
    const float first = std::holds_alternative<AdaGrad>(rule) ? 0.25f : 0.0f;
    std::vector<std::vector<float>> states(kSize, std::vector<float>(2, first));
    for (int64_t step = 1; step <= 3; ++step) {
      const auto gradients = random_values(kSize, 10 + step);
      optimizer.update(context, view(weights), view(gradients), 1.0f, 0.1f, step);
      plain_update(at_step(rule, 0.1f, step), expected, gradients, states);
    }
    // The loops may contract products and sums differently.
    EXPECT_THAT(weights, Pointwise(FloatNear(2e-5f), expected)) << name_of(rule);
  }
}

TEST(DenseOptimizer, GivesTheSameBytesWithAnyNumberOfThreads) {
  constexpr int64_t kSize = 50000;
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    Context context;
    context.threads = &pool;
    DenseOptimizer optimizer(context, {Adam{}, 0.1f, 0.0f, 0.01f}, kSize, {}, 0.0f);
    auto weights = random_values(kSize, 1);
    optimizer.update(context, view(weights), view(random_values(kSize, 2)), 0.5f, 0.1f, 1);
    results.push_back(weights);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST(DenseOptimizer, DecaysAllParametersAndPenalizesWeightsOnly) {
  const WeightRange weights_are[] = {{1, 3}};
  DenseOptimizer optimizer({}, {Sgd{}, 0.1f, 0.0f, 0.1f}, 4, weights_are, 0.4f);
  std::vector<float> weights = {1, 1, 2, 1};
  const std::vector<float> gradients = {0, 0, 1, 0};
  optimizer.update({}, view(weights), view(gradients), 1.0f, 1.0f, 1);
  // w - (g + decay w): decay 0.1 everywhere, 0.5 on weights
  EXPECT_THAT(weights, Pointwise(FloatNear(1e-6f), {0.9f, 0.5f, 0.0f, 0.9f}));
}

TEST(DenseOptimizer, ScalesTheGradientsButNotTheDecay) {
  DenseOptimizer optimizer({}, {Sgd{}, 0.1f, 0.0f, 0.5f}, 2, {}, 0.0f);
  std::vector<float> weights = {1, 2};
  const std::vector<float> gradients = {4, 8};
  optimizer.update({}, view(weights), view(gradients), 0.25f, 0.5f, 1);
  EXPECT_THAT(weights, Pointwise(FloatNear(1e-6f), {0.25f, 0.5f}));
}

TEST(DenseOptimizer, GoesOnExactlyFromASavedState) {
  constexpr int64_t kSize = 1000;
  for (const Rule& rule : kRules) {
    const DenseOptimizerSettings settings{rule, 0.1f, 0.1f, 0.01f};
    DenseOptimizer whole({}, settings, kSize, {}, 0.0f), resumed({}, settings, kSize, {}, 0.0f);
    auto weights = random_values(kSize, 1);
    whole.update({}, view(weights), view(random_values(kSize, 2)), 1.0f, 0.1f, 1);
    auto resumed_weights = weights;
    const auto saved = copy_of(whole.state());
    std::copy(saved.begin(), saved.end(), resumed.state().data);
    whole.update({}, view(weights), view(random_values(kSize, 3)), 1.0f, 0.1f, 2);
    resumed.update({}, view(resumed_weights), view(random_values(kSize, 3)), 1.0f, 0.1f, 2);
    EXPECT_EQ(weights, resumed_weights) << name_of(rule);
    EXPECT_EQ(copy_of(whole.state()), copy_of(resumed.state())) << name_of(rule);
  }
}

TEST(DenseOptimizer, StateStartsAtTheInitialAccumulatorForAdaGradOnly) {
  DenseOptimizer adagrad({}, {AdaGrad{}, 0.1f, 0.5f, 0.0f}, 3, {}, 0.0f);
  EXPECT_THAT(copy_of(adagrad.state()), ElementsAre(0.5f, 0.5f, 0.5f));
  DenseOptimizer adam({}, {Adam{}, 0.1f, 0.5f, 0.0f}, 3, {}, 0.0f);
  EXPECT_THAT(copy_of(adam.state()), Each(0.0f));
  EXPECT_EQ(adam.state().rows, 2);
  EXPECT_EQ(adam.state().cols, 3);
}

TEST(DenseOptimizer, RejectsWhatItCannotRun) {
  EXPECT_THAT(
      [] {
        DenseOptimizer({}, {RowWiseAdaGrad{}, 0.1f}, 3, {}, 0.0f);
      },
      ThrowsMessage<Error>(HasSubstr("rowwise_adagrad keeps one state a row")));
  DenseOptimizer optimizer({}, {Sgd{}, 0.1f}, 3, {}, 0.0f);
  std::vector<float> weights(3);
  const std::vector<float> gradients(2);
  EXPECT_THAT([&] { optimizer.update({}, view(weights), view(gradients), 1.0f, 0.1f, 1); },
              ThrowsMessage<Error>(HasSubstr("3 parameters, 2 gradients")));
  Context cuda;
  cuda.device = Device::kCuda;
  EXPECT_THAT(
      [&] {
        DenseOptimizer(cuda, {Sgd{}, 0.1f}, 3, {}, 0.0f);
      },
      ThrowsMessage<Error>(HasSubstr("use --device cpu")));
}

TEST(SquaredNorm, SumsInDoubleAndTheSameWithAnyNumberOfThreads) {
  const auto values = random_values(100003, 9);
  double expected = 0.0;
  for (const float value : values) expected += static_cast<double>(value) * value;
  ThreadPool pool(3);
  Context context;
  context.threads = &pool;
  EXPECT_NEAR(squared_norm({}, view(values)), expected, 1e-9 * expected);
  EXPECT_EQ(squared_norm({}, view(values)), squared_norm(context, view(values)));
  EXPECT_EQ(squared_norm({}, view(std::vector<float>{})), 0.0);
}

TEST(ClipByValue, ClampsAndLetsNanThrough) {
  std::vector<float> values = {-3, -0.5f, 0, 0.5f, 3, std::numeric_limits<float>::quiet_NaN()};
  clip_by_value({}, view(values), 1.0f);
  EXPECT_THAT(std::vector<float>(values.begin(), values.begin() + 5),
              ElementsAre(-1, -0.5f, 0, 0.5f, 1));
  EXPECT_TRUE(std::isnan(values[5]));
}

}  // namespace
}  // namespace emblem
