// Ops of gates, experts and lists of vectors against plain formulas in double precision.
#include <limits>

#include "nn/ops/op_bench_test.h"

namespace emblem {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::ThrowsMessage;

class VectorsTest : public DeviceTest {
 protected:
  Bench bench(int64_t rows) { return Bench(context_, rows); }
};
EMBLEM_TEST_ON_EVERY_DEVICE(VectorsTest);

TEST_P(VectorsTest, GatesAndExperts) {
  Bench b = bench(50);
  const Node x = b.input(3), one = b.input(4), two = b.input(4), three = b.input(4);
  const Node gate = b.graph.softmax(x), mixed = b.graph.mix(gate, {one, two, three}),
             unit = b.graph.normalize(one);
  b.run();
  b.expect(gate, [&](int64_t r, int64_t c) {
    double sum = 0.0;
    for (int64_t j = 0; j < 3; ++j) sum += std::exp(b.at(x, r, j));
    return std::exp(b.at(x, r, c)) / sum;
  });
  b.expect(mixed, [&](int64_t r, int64_t c) {
    return b.at(gate, r, 0) * b.at(one, r, c) + b.at(gate, r, 1) * b.at(two, r, c) +
           b.at(gate, r, 2) * b.at(three, r, c);
  });
  b.expect(unit, [&](int64_t r, int64_t c) {
    double square = 0.0;
    for (int64_t j = 0; j < 4; ++j) square += std::pow(b.at(one, r, j), 2);
    return b.at(one, r, c) / std::sqrt(square);
  });
}

TEST_P(VectorsTest, ProductsOverVectors) {
  Bench b = bench(20);
  const Node x = b.input(4 * 3);
  b.graph.set_scope("mix");
  const Node mixed = b.graph.mix_vectors(x, 3, 2);
  b.graph.set_scope("products");
  const Node products = b.graph.compressed_products(x, 3, 2);
  const Node sums = b.graph.vector_sums(x, 3);
  b.run();
  b.expect(mixed, [&](int64_t r, int64_t c) {
    double sum = 0.0;
    for (int64_t n = 0; n < 4; ++n)
      sum += b.parameter("mix.0.weight", n, c / 3) * b.at(x, r, n * 3 + c % 3);
    return sum;
  });
  b.expect(products, [&](int64_t r, int64_t c) {  // X (X^T Y)
    double sum = 0.0;
    for (int64_t d = 0; d < 3; ++d) {
      double inner = 0.0;
      for (int64_t n = 0; n < 4; ++n)
        inner += b.at(x, r, n * 3 + d) * b.parameter("products.0.weight", n, c % 2);
      sum += b.at(x, r, c / 2 * 3 + d) * inner;
    }
    return sum;
  });
  b.expect(sums, [&](int64_t r, int64_t c) {
    return b.at(x, r, c * 3) + b.at(x, r, c * 3 + 1) + b.at(x, r, c * 3 + 2);
  });
}

TEST_P(VectorsTest, CinTakesAllProductsOfTwoLists) {
  Bench b = bench(20);
  const Node x = b.input(2 * 4), x0 = b.input(3 * 4), y = b.graph.cin_layer(x, x0, 4, 5);
  b.run();
  b.expect(y, [&](int64_t r, int64_t c) {
    double sum = b.parameter("0.bias", 0, c / 4);
    for (int64_t i = 0; i < 2; ++i) {
      for (int64_t j = 0; j < 3; ++j)
        sum += b.parameter("0.weight", c / 4, i * 3 + j) * b.at(x, r, i * 4 + c % 4) *
               b.at(x0, r, j * 4 + c % 4);
    }
    return sum;
  });
}

TEST_P(VectorsTest, LayerNormOfVectorsNormalizesEach) {
  Bench b = bench(20);
  const Node x = b.input(3 * 5), y = b.graph.layer_norm_vectors(x, 5);
  b.run();
  b.expect(y, [&](int64_t r, int64_t c) {
    double mean = 0.0, square = 0.0;
    for (int64_t d = 0; d < 5; ++d) mean += b.at(x, r, c / 5 * 5 + d) / 5;
    for (int64_t d = 0; d < 5; ++d) square += std::pow(b.at(x, r, c / 5 * 5 + d) - mean, 2) / 5;
    return (b.at(x, r, c) - mean) / std::sqrt(square + 1e-5) * b.parameter("0.weight", 0, c % 5) +
           b.parameter("0.bias", 0, c % 5);
  });
}

TEST_P(VectorsTest, AutodisPicksSoftlyFromItsVectors) {
  constexpr int64_t kChannels = 4, kDim = 3;
  Bench b = bench(30);
  const Node x = b.input(2), y = b.graph.autodis(x, kDim, kChannels, 0.5f, 0.8f);
  b.run();
  b.expect(
      y,
      [&](int64_t r, int64_t c) {
        const int64_t f = c / kDim;
        double hidden[kChannels], scores[kChannels], sum = 0.0, value = 0.0;
        for (int64_t k = 0; k < kChannels; ++k) {
          const double product = b.parameter("0.proj_w", f, k) * b.at(x, r, f);
          hidden[k] = product < 0 ? 0.01 * product : product;
        }
        for (int64_t k = 0; k < kChannels; ++k) {
          scores[k] = 0.8 * hidden[k];
          for (int64_t j = 0; j < kChannels; ++j)
            scores[k] += b.parameter("0.proj_m", f * kChannels + k, j) * hidden[j];
          sum += scores[k] = std::exp(scores[k] / 0.5);
        }
        for (int64_t k = 0; k < kChannels; ++k)
          value += scores[k] / sum * b.parameter("0.meta_emb", f * kChannels + k, c % kDim);
        return value;
      },
      1e-4);
}

TEST_P(VectorsTest, NoGradientFlowsThroughAStop) {
  Graph g(1);
  const Node x = g.trained_input("x", 1), z = g.trained_input("z", 1), y = g.input("y", 1);
  const Node stopped = g.stop_gradient(x);
  g.minimize(losses::BinaryCrossEntropy{}, g.sum({g.multiply(stopped, z), g.scale(x, 2.0f)}),
             {.labels = y});
  g.prepare(context_, 1);
  g.set_rows(1);
  to_device<float>(context_, {3.0f}, g.value(x));
  to_device<float>(context_, {-2.0f}, g.value(z));  // the logit is 0, its gradient -0.5
  to_device<float>(context_, {1.0f}, g.value(y));
  g.forward(context_, Phase::kTrain, 0);
  g.backward(context_);
  EXPECT_FLOAT_EQ(to_host(context_, g.value(stopped))[0], 3.0f);
  EXPECT_FLOAT_EQ(to_host(context_, g.gradient(x))[0], -1.0f);
  EXPECT_FLOAT_EQ(to_host(context_, g.gradient(z))[0], -1.5f);
}

// A tower that learns from its own loss only, beside one that the stopped node came from.
TEST_P(VectorsTest, ParametersBeforeAStopAreLeftAlone) {
  Graph g(1);
  const Node x = g.input("x", 3), y = g.input("y", 1);
  g.set_scope("before");
  const Node hidden = g.linear(x, 4);
  g.set_scope("after");
  g.minimize(losses::BinaryCrossEntropy{}, g.linear(g.stop_gradient(hidden), 1), {.labels = y});
  g.prepare(context_, 8);
  g.set_rows(8);
  to_device(context_, std::vector<float>(24, 1.0f), g.value(x));
  to_device(context_, std::vector<float>(8, 1.0f), g.value(y));
  g.forward(context_, Phase::kTrain, 0);
  g.backward(context_);
  const auto gradients = to_host(context_, g.parameter_gradients());
  for (const Parameter& p : g.parameter_list()) {
    const std::vector<float> of(&gradients[p.begin], &gradients[p.begin] + p.rows * p.cols);
    if (p.name.starts_with("before")) {
      EXPECT_THAT(of, Each(0.0f)) << p.name;
    } else {
      EXPECT_THAT(of, Each(testing::Ne(0.0f))) << p.name;
    }
  }
}

TEST_P(VectorsTest, SelectTakesThePartThatALabelNumbers) {
  Graph g(1);
  const Node a = g.trained_input("a", 1), b = g.trained_input("b", 1), labels = g.input("l", 2);
  const Node chosen = g.select({a, b}, labels, 1);
  g.minimize(losses::BinaryCrossEntropy{}, chosen, {.labels = labels});
  g.prepare(context_, 4);
  g.set_rows(3);
  to_device<float>(context_, {0.0f, 1.0f, 2.0f}, g.value(a));
  to_device<float>(context_, {5.0f, 0.0f, 7.0f}, g.value(b));
  to_device<float>(context_, {1, 0, 1, 1, 0, 2}, g.value(labels));
  g.forward(context_, Phase::kTrain, 0);
  auto values = to_host(context_, g.value(chosen));
  EXPECT_EQ(values[0], 0.0f);
  EXPECT_EQ(values[1], 0.0f);
  EXPECT_TRUE(std::isnan(values[2])) << "there is no part 2";
  EXPECT_TRUE(std::isnan(g.loss(context_)));
  g.set_rows(2);
  g.forward(context_, Phase::kTrain, 0);
  EXPECT_NEAR(g.loss(context_), std::log(2.0), 1e-9);
  g.backward(context_);
  EXPECT_THAT(to_host(context_, g.gradient(a)), testing::ElementsAre(-0.25f, 0.0f));
  EXPECT_THAT(to_host(context_, g.gradient(b)), testing::ElementsAre(0.0f, -0.25f));
}

TEST_P(VectorsTest, VariationalDropoutWeighsFeaturesByWhatTheyKeep) {
  constexpr int64_t kRows = 2000;
  Bench b = bench(kRows);
  const Node x = b.input(5), y = b.graph.variational_dropout(x, {0, 2}, 3.0f, "g_feature_p_loss");
  b.run(Phase::kEval);
  double kept[2];
  for (const int64_t f : {0, 1}) kept[f] = 1.0 / (1.0 + std::exp(b.parameter("0.logit_p", 0, f)));
  b.expect(y, [&](int64_t r, int64_t c) { return b.at(x, r, c) * kept[c >= 2]; });
  EXPECT_NEAR(b.graph.losses(context_)[0], 3.0 / kRows * (kept[0] + kept[1]), 1e-6);
  EXPECT_EQ(b.graph.loss_names()[0], "g_feature_p_loss");
  b.run(Phase::kTrain, 1);
  double share[2] = {};
  for (int64_t r = 0; r < kRows; ++r) {
    for (const int64_t f : {0, 1}) {
      const int64_t first = f == 0 ? 0 : 2, last = f == 0 ? 1 : 4;
      const double factor = b.at(y, r, first) / b.at(x, r, first);
      EXPECT_NEAR(b.at(y, r, last), factor * b.at(x, r, last), 1e-4) << "one draw for a feature";
      share[f] += factor / kRows;
    }
  }
  for (const int64_t f : {0, 1}) EXPECT_NEAR(share[f], kept[f], 0.04);
  const auto first = b.values(y);
  b.run(Phase::kTrain, 2);
  EXPECT_NE(b.values(y), first);
}

// The initial values of a parameter: their largest magnitude and their standard deviation around 0.
struct Spread {
  double most = 0.0, deviation = 0.0;
};
Spread spread(Graph& g, const std::string& name) {
  for (const Parameter& p : g.parameter_list()) {
    if (p.name != name) continue;
    Spread result;
    for (int64_t i = p.begin; i < p.begin + p.rows * p.cols; ++i) {
      const double value = g.parameters().data[i];
      result.most = std::max(result.most, std::fabs(value));
      result.deviation += value * value / static_cast<double>(p.rows * p.cols);
    }
    result.deviation = std::sqrt(result.deviation);
    return result;
  }
  ADD_FAILURE() << "no parameter " << name;
  return {};
}

TEST(Layers, StartAsThoseOfTorchEasyRec) {
  Graph g(3);
  const Node x = g.input("x", 400);
  g.set_scope("cross");
  g.cross_v1(x, 1);
  g.set_scope("mix");
  g.mix_vectors(x, 4, 24);
  g.set_scope("prelu");
  g.activation(x, Activation::kPrelu);
  g.set_scope("dice");
  g.activation(x, Activation::kDice);
  g.set_scope("autodis");
  g.autodis(x, 8, 10, 0.1f, 0.8f);
  g.set_scope("normal");
  g.linear_without_bias(x, 50, Initial::xavier_normal(400, 50));
  g.prepare({}, 1);
  const auto is_uniform = [&](const std::string& name, double bound) {
    const Spread of = spread(g, name);
    EXPECT_LE(of.most, bound + 1e-6) << name;
    EXPECT_NEAR(of.deviation, bound / std::sqrt(3.0), 0.1 * bound) << name;
  };
  is_uniform("cross.0.weight", std::sqrt(6.0 / 401));
  is_uniform("mix.0.weight", std::sqrt(6.0 / 24));
  EXPECT_EQ(spread(g, "cross.0.bias").most, 0.0);
  EXPECT_EQ(spread(g, "prelu.0.weight").most, 0.25);
  EXPECT_EQ(spread(g, "dice.0.alpha").most, 0.0);
  EXPECT_NEAR(spread(g, "autodis.0.meta_emb").deviation, 1.0, 0.02);
  EXPECT_NEAR(spread(g, "autodis.0.proj_w").deviation, std::sqrt(2.0 / 11), 0.02);
  EXPECT_NEAR(spread(g, "autodis.0.proj_m").deviation, std::sqrt(0.1), 0.01);
  EXPECT_NEAR(spread(g, "normal.0.weight").deviation, std::sqrt(2.0 / 450), 0.002);
}

TEST(Vectors, RejectShapesThatDoNotFit) {
  Graph g(1);
  const Node x = g.input("x", 10), y = g.input("y", 4), z = g.input("z", 4);
  const auto fails = [](const auto& body, const std::string& message) {
    EXPECT_THAT(body, ThrowsMessage<Error>(HasSubstr(message)));
  };
  fails([&] { g.mix(x, {y, z}); }, "the gate 'x' has 10 columns for 2 experts");
  fails([&] { g.mix(x, {x, y}); }, "'x' has 10 columns and 'y' 4; they must be equal");
  fails([&] { g.select({y, z}, x, 10); }, "column 10 of the labels 'x', which have 10");
  fails([&] { g.mix_vectors(x, 4, 2); }, "whole vectors of dimension 4");
  fails([&] { g.cin_layer(y, x, 4, 2); }, "whole vectors of dimension 4");
  fails([&] { g.variational_dropout(x, {0, 3, 3}, 1.0f, "l"); }, "must begin at 0, rise");
  fails([&] { g.autodis(x, 4, 2, 0.0f, 0.8f); }, "the temperature is 0");
}

}  // namespace
}  // namespace emblem
