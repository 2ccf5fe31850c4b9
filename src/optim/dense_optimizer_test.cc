#include "optim/dense_optimizer.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/device/device_test.h"
#include "core/math/random.h"

namespace emblem {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;
using testing::ThrowsMessage;

std::vector<float> random_values(int64_t count, uint64_t stream) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = random_normal(5, stream, i);
  return values;
}

class DenseOptimizerTest : public DeviceTest {
 protected:
  // One update of `weights` on the device.
  void update(DenseOptimizer& optimizer, std::vector<float>& weights,
              const std::vector<float>& gradients, float scale, float rate, int64_t step) {
    auto there = Buffer<float>::from(context_, weights);
    const auto gradients_there = Buffer<float>::from(context_, gradients);
    optimizer.update(context_, there.view(), gradients_there.view(), scale, rate, step);
    weights = there.to_host(context_);
  }
};
EMBLEM_TEST_ON_EVERY_DEVICE(DenseOptimizerTest);

const Rule kRules[] = {Sgd{},  Momentum{}, AdaGrad{}, Adam{},
                       Ftrl{}, AmsGrad{},  RmsProp{}, AdaDelta{}};

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

TEST_P(DenseOptimizerTest, AgreesWithTheRuleAppliedWeightByWeight) {
  constexpr int64_t kSize = 40001;  // several chunks, the last one odd
  for (const Rule& rule : kRules) {
    DenseOptimizer optimizer(context_, {rule, 0.1f, 0.25f, 0.0f}, kSize, {}, 0.0f);
    auto weights = random_values(kSize, 1), expected = weights;
    const float first = std::holds_alternative<AdaGrad>(rule) ? 0.25f : 0.0f;
    std::vector<std::vector<float>> states(kSize, std::vector<float>(3, first));
    for (int64_t step = 1; step <= 3; ++step) {
      const auto gradients = random_values(kSize, 10 + step);
      update(optimizer, weights, gradients, 1.0f, 0.1f, step);
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
    auto weights = Buffer<float>::from(context, random_values(kSize, 1));
    const auto gradients = Buffer<float>::from(context, random_values(kSize, 2));
    optimizer.update(context, weights.view(), gradients.view(), 0.5f, 0.1f, 1);
    results.push_back(weights.to_host(context));
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST_P(DenseOptimizerTest, DecaysAllParametersAndPenalizesWeightsOnly) {
  const WeightRange weights_are[] = {{1, 3}};
  DenseOptimizer optimizer(context_, {Sgd{}, 0.1f, 0.0f, 0.1f}, 4, weights_are, 0.4f);
  std::vector<float> weights = {1, 1, 2, 1};
  const std::vector<float> gradients = {0, 0, 1, 0};
  update(optimizer, weights, gradients, 1.0f, 1.0f, 1);
  // w - (g + decay w): decay 0.1 everywhere, 0.5 on weights
  EXPECT_THAT(weights, Pointwise(FloatNear(1e-6f), {0.9f, 0.5f, 0.0f, 0.9f}));
}

TEST_P(DenseOptimizerTest, ScalesTheGradientsButNotTheDecay) {
  DenseOptimizer optimizer(context_, {Sgd{}, 0.1f, 0.0f, 0.5f}, 2, {}, 0.0f);
  std::vector<float> weights = {1, 2};
  const std::vector<float> gradients = {4, 8};
  update(optimizer, weights, gradients, 0.25f, 0.5f, 1);
  EXPECT_THAT(weights, Pointwise(FloatNear(1e-6f), {0.25f, 0.5f}));
}

TEST_P(DenseOptimizerTest, GoesOnExactlyFromASavedState) {
  constexpr int64_t kSize = 1000;
  for (const Rule& rule : kRules) {
    const DenseOptimizerSettings settings{rule, 0.1f, 0.1f, 0.01f};
    DenseOptimizer whole(context_, settings, kSize, {}, 0.0f),
        resumed(context_, settings, kSize, {}, 0.0f);
    auto weights = random_values(kSize, 1);
    update(whole, weights, random_values(kSize, 2), 1.0f, 0.1f, 1);
    auto resumed_weights = weights;
    to_device(context_, to_host(context_, whole.state()), resumed.state());
    update(whole, weights, random_values(kSize, 3), 1.0f, 0.1f, 2);
    update(resumed, resumed_weights, random_values(kSize, 3), 1.0f, 0.1f, 2);
    EXPECT_EQ(weights, resumed_weights) << name_of(rule);
    EXPECT_EQ(to_host(context_, whole.state()), to_host(context_, resumed.state()))
        << name_of(rule);
  }
}

TEST_P(DenseOptimizerTest, StateStartsAtTheInitialAccumulatorForAdaGradOnly) {
  DenseOptimizer adagrad(context_, {AdaGrad{}, 0.1f, 0.5f, 0.0f}, 3, {}, 0.0f);
  EXPECT_THAT(to_host(context_, adagrad.state()), ElementsAre(0.5f, 0.5f, 0.5f));
  DenseOptimizer adam(context_, {Adam{}, 0.1f, 0.5f, 0.0f}, 3, {}, 0.0f);
  EXPECT_THAT(to_host(context_, adam.state()), Each(0.0f));
  EXPECT_EQ(adam.state().rows, 2);
  EXPECT_EQ(adam.state().cols, 3);
}

TEST_P(DenseOptimizerTest, RejectsWhatItCannotRun) {
  EXPECT_THAT(
      [&] {
        DenseOptimizer(context_, {RowWiseAdaGrad{}, 0.1f}, 3, {}, 0.0f);
      },
      ThrowsMessage<Error>(HasSubstr("rowwise_adagrad keeps one state per row")));
  DenseOptimizer optimizer(context_, {Sgd{}, 0.1f}, 3, {}, 0.0f);
  std::vector<float> weights(3);
  const std::vector<float> gradients(2);
  EXPECT_THAT([&] { update(optimizer, weights, gradients, 1.0f, 0.1f, 1); },
              ThrowsMessage<Error>(HasSubstr("3 parameters, 2 gradients")));
}

TEST_P(DenseOptimizerTest, OfPartsUpdatesItsOwnParametersAsIfThereWereNoOthers) {
  constexpr int64_t kSize = 100;
  const std::vector<WeightRange> own = {{0, 10}, {40, 75}}, rest = {{10, 40}, {75, 100}};
  const WeightRange weights_are[] = {{5, 60}};
  const DenseOptimizerSettings settings{Adam{}, 0.1f, 0.0f, 0.01f};
  DenseOptimizer whole(context_, settings, kSize, weights_are, 0.1f);
  DenseOptimizer first(context_, settings, kSize, weights_are, 0.1f, own);
  DenseOptimizer second(context_, settings, kSize, weights_are, 0.1f, rest);
  EXPECT_EQ(first.state().rows, 2);
  EXPECT_EQ(first.state().cols, 45);
  auto expected = random_values(kSize, 1), weights = expected;
  for (int64_t step = 1; step <= 3; ++step) {
    const auto gradients = random_values(kSize, 10 + step);
    update(whole, expected, gradients, 0.5f, 0.1f, step);
    auto before = weights;
    update(first, weights, gradients, 0.5f, 0.1f, step);
    EXPECT_TRUE(std::equal(weights.begin() + 10, weights.begin() + 40, before.begin() + 10));
    update(second, weights, gradients, 0.5f, 0.1f, step);
    EXPECT_EQ(weights, expected);
  }
}

TEST_P(DenseOptimizerTest, TheAverageBeginsAsACopyAndDecays) {
  auto parameters = Buffer<float>::from(context_, {1, 2});
  DenseAverage average(context_, 0.75f, parameters.view());
  EXPECT_FALSE(average.started());
  to_device(context_, {3, 4}, parameters.view());
  average.update(context_, parameters.view());
  EXPECT_THAT(to_host(context_, average.values()), ElementsAre(3, 4));
  to_device(context_, {7, 0}, parameters.view());
  average.update(context_, parameters.view());
  EXPECT_THAT(to_host(context_, average.values()), ElementsAre(4, 3));
  average.swap_with(context_, parameters.view());
  EXPECT_THAT(to_host(context_, average.values()), ElementsAre(7, 0));
  EXPECT_THAT(parameters.to_host(context_), ElementsAre(4, 3));
}

TEST_P(DenseOptimizerTest, SumsOfGradientsAreScaled) {
  auto sum = Buffer<float>::from(context_, {1, 2});
  const auto gradients = Buffer<float>::from(context_, {10, 20});
  add_scaled(context_, gradients.view(), 0.5f, sum.view());
  EXPECT_THAT(sum.to_host(context_), ElementsAre(6, 12));
}

TEST_P(DenseOptimizerTest, TheSquaredNormIsSummedInDoubleAndTheSameInEveryRun) {
  const auto values = random_values(100003, 9);
  double expected = 0.0;
  for (const float value : values) expected += static_cast<double>(value) * value;
  const auto there = Buffer<float>::from(context_, values);
  SquaredNorm norm(context_);
  const double first = norm(context_, there.view());
  EXPECT_NEAR(first, expected, 1e-9 * expected);
  EXPECT_EQ(norm(context_, there.view()), first);
  Context one_thread = context_;
  one_thread.threads = nullptr;
  EXPECT_EQ(norm(one_thread, there.view()), first);
  EXPECT_EQ(norm(context_, Buffer<float>(context_.device, 0).view()), 0.0);
}

TEST_P(DenseOptimizerTest, ClippingByValueClampsAndLetsNanThrough) {
  auto there = Buffer<float>::from(
      context_, {-3, -0.5f, 0, 0.5f, 3, std::numeric_limits<float>::quiet_NaN()});
  clip_by_value(context_, there.view(), 1.0f);
  const auto values = there.to_host(context_);
  EXPECT_THAT(std::vector<float>(values.begin(), values.begin() + 5),
              ElementsAre(-1, -0.5f, 0, 0.5f, 1));
  EXPECT_TRUE(std::isnan(values[5]));
}

}  // namespace
}  // namespace emblem
