// The values of each op against a plain formula in double precision.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "nn/ops/op_bench_test.h"

namespace emblem {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::ThrowsMessage;

class OpTest : public DeviceTest {
 protected:
  Bench bench(int64_t rows) { return Bench(context_, rows); }
};
EMBLEM_TEST_ON_EVERY_DEVICE(OpTest);

double softplus(double x) { return std::log(1.0 + std::exp(-std::fabs(x))) + std::max(x, 0.0); }

// Activations without parameters, with torch's arguments.
double activate(Activation activation, double x) {
  const double first = activation.first, second = activation.second;
  switch (activation.kind) {
    case Activation::kRelu:
      return std::max(0.0, x);
    case Activation::kSigmoid:
      return 1.0 / (1.0 + std::exp(-x));
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kGelu:
      return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0)));
    case Activation::kGeluTanh:
      return 0.5 * x *
             (1.0 + std::tanh(std::sqrt(2.0 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    case Activation::kSilu:
      return x / (1.0 + std::exp(-x));
    case Activation::kLeakyRelu:
      return x < 0.0 ? first * x : x;
    case Activation::kElu:
      return x > 0.0 ? x : first * (std::exp(x) - 1.0);
    case Activation::kSelu:
      return 1.0507009873554805 * (x > 0.0 ? x : 1.6732632423543772 * (std::exp(x) - 1.0));
    case Activation::kCelu:
      return std::max(0.0, x) + std::min(0.0, first * (std::exp(x / first) - 1.0));
    case Activation::kSoftplus:
      return x * first > second ? x : softplus(x * first) / first;
    case Activation::kSoftsign:
      return x / (1.0 + std::fabs(x));
    case Activation::kHardswish:
      return x * std::clamp(x + 3.0, 0.0, 6.0) / 6.0;
    case Activation::kHardsigmoid:
      return std::clamp(x + 3.0, 0.0, 6.0) / 6.0;
    case Activation::kHardtanh:
    case Activation::kRelu6:
      return std::clamp(x, first, second);
    case Activation::kMish:
      return x * std::tanh(softplus(x));
    case Activation::kLogSigmoid:
      return -softplus(-x);
    default:
      return x;
  }
}

const Activation kActivations[] = {Activation::kNone,
                                   Activation::kRelu,
                                   Activation::kSigmoid,
                                   Activation::kTanh,
                                   Activation::kGelu,
                                   Activation::kSilu,
                                   Activation::kLeakyRelu,
                                   Activation::kGeluTanh,
                                   Activation::kElu,
                                   Activation::kSelu,
                                   Activation::kCelu,
                                   Activation::kSoftplus,
                                   Activation::kSoftsign,
                                   Activation::kHardswish,
                                   Activation::kHardsigmoid,
                                   Activation::kHardtanh,
                                   Activation::kRelu6,
                                   Activation::kMish,
                                   Activation::kLogSigmoid,
                                   {Activation::kLeakyRelu, 0.2f},
                                   {Activation::kElu, 0.5f},
                                   {Activation::kCelu, 2.0f},
                                   {Activation::kSoftplus, 2.0f, 3.0f},
                                   {Activation::kHardtanh, -2.0f, 0.5f}};

TEST_P(OpTest, LinearIsTheActivatedProductPlusBias) {
  for (const Activation activation : kActivations) {
    for (const int64_t units : {1, 5}) {
      Bench b = bench(300);
      const Node x = b.input(7), y = b.graph.linear(x, units, activation);
      b.run();
      b.expect(y, [&](int64_t r, int64_t c) {
        double sum = b.parameter("0.bias", 0, c);
        for (int64_t j = 0; j < 7; ++j) sum += b.at(x, r, j) * b.parameter("0.weight", c, j);
        return activate(activation, sum);
      });
    }
  }
}

TEST_P(OpTest, ActivationsAreAccurateOverTheWholeRange) {
  for (const Activation activation : kActivations) {
    Bench b = bench(401);
    const Node x = b.input(1), y = b.graph.activation(x, activation);
    b.run();
    std::vector<float> points(401);
    for (int64_t r = 0; r < 401; ++r) points[r] = 0.5f * static_cast<float>(r - 200);
    b.set(x, points);
    b.run();
    b.expect(
        y, [&](int64_t r, int64_t) { return activate(activation, b.at(x, r, 0)); }, 1e-6);
    points[0] = std::numeric_limits<float>::quiet_NaN();
    b.set(x, points);
    b.run();
    EXPECT_TRUE(std::isnan(b.at(y, 0, 0))) << "not a number must not become one";
  }
}

TEST_P(OpTest, PreluHasOneTrainedSlope) {
  Bench b = bench(40);
  const Node x = b.input(5), y = b.graph.activation(x, Activation::kPrelu);
  b.run();
  b.expect(y, [&](int64_t r, int64_t c) {
    return b.at(x, r, c) * (b.at(x, r, c) < 0 ? b.parameter("0.weight", 0, 0) : 1.0);
  });
}

TEST_P(OpTest, DiceGatesByTheNormalizedInput) {
  constexpr int64_t kRows = 300;
  Bench b = bench(kRows);
  const Node x = b.input(3), y = b.graph.activation(x, Activation::kDice);
  b.run();
  for (int64_t c = 0; c < 3; ++c) {
    double mean = 0.0, square = 0.0;
    for (int64_t r = 0; r < kRows; ++r) mean += b.at(x, r, c) / kRows;
    for (int64_t r = 0; r < kRows; ++r) square += std::pow(b.at(x, r, c) - mean, 2) / kRows;
    const double alpha = b.parameter("0.alpha", 0, c);
    for (int64_t r = 0; r < kRows; ++r) {
      const double p =
          activate(Activation::kSigmoid, (b.at(x, r, c) - mean) / std::sqrt(square + 1e-5));
      ASSERT_NEAR(b.at(y, r, c), (alpha * (1 - p) + p) * b.at(x, r, c), 2e-5);
    }
    EXPECT_NEAR(b.statistics()[c], 0.1 * mean, 1e-6);
  }
  b.run(Phase::kEval);
  const auto statistics = b.statistics();
  b.expect(y, [&](int64_t r, int64_t c) {
    const double p = activate(Activation::kSigmoid, (b.at(x, r, c) - statistics[c]) /
                                                        std::sqrt(statistics[3 + c] + 1e-5));
    return (b.parameter("0.alpha", 0, c) * (1 - p) + p) * b.at(x, r, c);
  });
}

TEST_P(OpTest, BatchNormNormalizesByTheBatchInTrainingAndKeepsRunningStatistics) {
  constexpr int64_t kRows = 700;
  Bench b = bench(kRows);
  const Node x = b.input(3), y = b.graph.batch_norm(x, Activation::kRelu);
  b.run();
  for (int64_t c = 0; c < 3; ++c) {
    double mean = 0.0, square = 0.0;
    for (int64_t r = 0; r < kRows; ++r) mean += b.at(x, r, c) / kRows;
    for (int64_t r = 0; r < kRows; ++r) square += std::pow(b.at(x, r, c) - mean, 2);
    for (int64_t r = 0; r < kRows; ++r) {
      const double normalized = (b.at(x, r, c) - mean) / std::sqrt(square / kRows + 1e-5);
      ASSERT_NEAR(
          b.at(y, r, c),
          std::max(0.0, normalized * b.parameter("0.weight", 0, c) + b.parameter("0.bias", 0, c)),
          2e-5);
    }
    EXPECT_NEAR(b.statistics()[c], 0.1 * mean, 1e-6);
    EXPECT_NEAR(b.statistics()[3 + c], 0.9 + 0.1 * square / (kRows - 1), 1e-5);
  }
}

TEST_P(OpTest, BatchNormUsesTheStatisticsInEvaluationAndForASingleRow) {
  for (const Phase phase : {Phase::kEval, Phase::kTrain}) {
    Bench b = bench(1);
    const Node x = b.input(2), y = b.graph.batch_norm(x);
    b.run(phase);
    const std::vector<float> statistics = {0.5f, -1.0f, 4.0f, 0.25f};  // means, variances
    b.set_statistics(statistics);
    b.run(phase);
    b.expect(y, [&](int64_t r, int64_t c) {
      return (b.at(x, r, c) - statistics[c]) / std::sqrt(statistics[2 + c] + 1e-5) *
                 b.parameter("0.weight", 0, c) +
             b.parameter("0.bias", 0, c);
    });
    EXPECT_EQ(b.statistics(), statistics);
  }
}

TEST_P(OpTest, LayerNormNormalizesEachRow) {
  Bench b = bench(50);
  const Node x = b.input(9), y = b.graph.layer_norm(x);
  b.run();
  b.expect(y, [&](int64_t r, int64_t c) {
    double mean = 0.0, square = 0.0;
    for (int64_t j = 0; j < 9; ++j) mean += b.at(x, r, j) / 9;
    for (int64_t j = 0; j < 9; ++j) square += std::pow(b.at(x, r, j) - mean, 2) / 9;
    return (b.at(x, r, c) - mean) / std::sqrt(square + 1e-5) * b.parameter("0.weight", 0, c) +
           b.parameter("0.bias", 0, c);
  });
}

TEST_P(OpTest, DropoutKeepsTheMeanDependsOnTheDrawAndIsIdleInEvaluation) {
  Bench b = bench(500);
  const Node x = b.input(81), y = b.graph.dropout(x, 0.25f);
  b.run(Phase::kTrain, 1);
  int64_t dropped = 0;
  std::vector<float> first;
  for (int64_t i = 0; i < 500 * 81; ++i) {
    const float value = b.values(y)[i], from = b.values(x)[i];
    first.push_back(value);
    if (value == 0.0f)
      ++dropped;
    else
      ASSERT_FLOAT_EQ(value, from / 0.75f);
  }
  EXPECT_NEAR(static_cast<double>(dropped) / (500 * 81), 0.25, 0.01);
  b.run(Phase::kTrain, 2);
  EXPECT_NE(b.values(y), first);
  b.run(Phase::kTrain, 1);
  EXPECT_EQ(b.values(y), first);
  b.run(Phase::kEval, 1);
  b.expect(y, [&](int64_t r, int64_t c) { return b.at(x, r, c); });
}

TEST_P(OpTest, InteractionListsTheProductsOfAllPairsOfVectors) {
  for (const int64_t dim : {1, 3, 4, 16, 21, 128}) {
    for (const int64_t vectors : {2, 4, 5, 9, 26}) {
      Bench b = bench(3);
      const Node first = b.input(dim), x = b.input(vectors * dim);
      const Node alone = b.graph.dlrm_interaction({}, x, dim),
                 with_first = b.graph.dlrm_interaction(first, x, dim);
      b.run();
      const auto element = [&](int64_t r, int64_t v, int64_t d) {
        return v < 0 ? b.at(first, r, d) : b.at(x, r, v * dim + d);
      };
      for (const bool has_first : {false, true}) {
        b.expect(has_first ? with_first : alone, [&](int64_t r, int64_t c) {
          if (has_first && c < dim) return b.at(first, r, c);
          int64_t pair = c - (has_first ? dim : 0), i = 1;
          for (; pair >= i; ++i) pair -= i;  // row i of the triangle has i products
          double sum = 0.0;
          for (int64_t d = 0; d < dim; ++d)
            sum += element(r, i - has_first, d) * element(r, pair - has_first, d);
          return sum;
        });
      }
    }
  }
}

TEST_P(OpTest, FmIsHalfTheDifferenceOfSquares) {
  Bench b = bench(40);
  const Node x = b.input(12), y = b.graph.fm(x, 3);
  b.run();
  b.expect(y, [&](int64_t r, int64_t d) {
    double sum = 0.0;  // over pairs, as it is defined
    for (int64_t i = 0; i < 4; ++i) {
      for (int64_t j = 0; j < i; ++j) sum += b.at(x, r, i * 3 + d) * b.at(x, r, j * 3 + d);
    }
    return sum;
  });
}

TEST_P(OpTest, CrossLayersFollowBothPapers) {
  Bench b = bench(20);
  const Node x = b.input(4);
  b.graph.set_scope("v1");
  const Node one = b.graph.cross_v1(x, 1);
  b.graph.set_scope("v2");
  const Node full = b.graph.cross_v2(x, 1, 0);
  b.graph.set_scope("low");
  const Node low = b.graph.cross_v2(x, 1, 2);
  b.run();
  b.expect(one, [&](int64_t r, int64_t c) {
    double product = 0.0;
    for (int64_t j = 0; j < 4; ++j) product += b.at(x, r, j) * b.parameter("v1.0.weight", 0, j);
    return b.at(x, r, c) * product + b.parameter("v1.0.bias", 0, c) + b.at(x, r, c);
  });
  b.expect(full, [&](int64_t r, int64_t c) {
    double z = b.parameter("v2.0.bias", 0, c);
    for (int64_t j = 0; j < 4; ++j) z += b.parameter("v2.0.weight", c, j) * b.at(x, r, j);
    return b.at(x, r, c) * z + b.at(x, r, c);
  });
  b.expect(low, [&](int64_t r, int64_t c) {
    double z = b.parameter("low.0.u.bias", 0, c);
    for (int64_t k = 0; k < 2; ++k) {
      double inner = 0.0;
      for (int64_t j = 0; j < 4; ++j) inner += b.parameter("low.0.v.weight", k, j) * b.at(x, r, j);
      z += b.parameter("low.0.u.weight", c, k) * inner;
    }
    return b.at(x, r, c) * z + b.at(x, r, c);
  });
}

TEST_P(OpTest, ShapesAndElementsGoWhereTheyShould) {
  Bench b = bench(33);
  const Node x = b.input(3), y = b.input(3), z = b.input(2);
  const Node joined = b.graph.concat({x, z, y}), middle = b.graph.slice(joined, 2, 6);
  const Node total = b.graph.sum({x, y, x}), product = b.graph.multiply(x, y),
             half = b.graph.scale(x, 0.5f);
  const Node rows = b.graph.row_sum(joined), squashed = b.graph.sigmoid(x);
  b.run();
  const auto in_joined = [&](int64_t r, int64_t c) {
    return c < 3 ? b.at(x, r, c) : c < 5 ? b.at(z, r, c - 3) : b.at(y, r, c - 5);
  };
  b.expect(joined, in_joined, 0.0);
  b.expect(
      middle, [&](int64_t r, int64_t c) { return in_joined(r, c + 2); }, 0.0);
  b.expect(total, [&](int64_t r, int64_t c) { return 2 * b.at(x, r, c) + b.at(y, r, c); });
  b.expect(product, [&](int64_t r, int64_t c) { return b.at(x, r, c) * b.at(y, r, c); });
  b.expect(half, [&](int64_t r, int64_t c) { return 0.5 * b.at(x, r, c); });
  b.expect(squashed,
           [&](int64_t r, int64_t c) { return activate(Activation::kSigmoid, b.at(x, r, c)); });
  b.expect(rows, [&](int64_t r, int64_t) {
    double sum = 0.0;
    for (int64_t c = 0; c < 8; ++c) sum += in_joined(r, c);
    return sum;
  });
}

// Loss and gradients of given logits, labels and weights (none: empty).
struct LossResult {
  double loss;
  std::vector<float> gradients;
};
class BinaryCrossEntropyTest : public DeviceTest {
 protected:
  LossResult cross_entropy(const std::vector<float>& logits, const std::vector<float>& labels,
                           const std::vector<float>& weights, float smoothing) {
    Graph g(1);
    const Node x = g.trained_input("x", 1), y = g.input("y", 1);
    const Node w = weights.empty() ? Node{} : g.input("w", 1);
    g.minimize(losses::BinaryCrossEntropy{smoothing}, x, {.labels = y, .weights = w});
    g.prepare(context_, static_cast<int64_t>(logits.size()));
    g.set_rows(static_cast<int64_t>(logits.size()));
    to_device(context_, logits, g.value(x));
    to_device(context_, labels, g.value(y));
    if (w.id >= 0) to_device(context_, weights, g.value(w));
    g.forward(context_, Phase::kTrain, 0);
    g.backward(context_);
    return {g.loss(context_), to_host(context_, g.gradient(x))};
  }
};
EMBLEM_TEST_ON_EVERY_DEVICE(BinaryCrossEntropyTest);

TEST_P(BinaryCrossEntropyTest, IsTheWeightedMeanWithSmoothedLabels) {
  // log(2) at a logit of 0; sigmoid(1) = 0.731058579, log(1 + e^-1) = 0.313261688.
  const LossResult plain = cross_entropy({0, 1}, {1, 1}, {}, 0.0f);
  EXPECT_NEAR(plain.loss, (0.693147181 + 0.313261688) / 2, 1e-8);
  EXPECT_NEAR(plain.gradients[0], -0.25, 1e-7);
  EXPECT_NEAR(plain.gradients[1], (0.731058579 - 1) / 2, 1e-7);
  const LossResult weighted = cross_entropy({0, 1}, {1, 0}, {3, 1}, 0.0f);
  EXPECT_NEAR(weighted.loss, (3 * 0.693147181 + 1.313261688) / 4, 1e-8);
  EXPECT_NEAR(weighted.gradients[0], -0.5 * 3 / 4, 1e-7);
  EXPECT_NEAR(weighted.gradients[1], 0.731058579 / 4, 1e-7);
  const LossResult smoothed = cross_entropy({1, 1}, {1, 0}, {}, 0.2f);  // labels 0.9 and 0.1
  EXPECT_NEAR(smoothed.loss, 0.5 * (0.313261688 + 1.313261688), 1e-7);
  EXPECT_NEAR(smoothed.gradients[1], (0.731058579 - 0.1) / 2, 1e-7);
}

TEST_P(BinaryCrossEntropyTest, StaysFiniteAtExtremeLogits) {
  const LossResult result = cross_entropy({1000, -1000, 1000}, {1, 1, 0}, {}, 0.0f);
  EXPECT_NEAR(result.loss, 2000.0 / 3, 1e-6);
  EXPECT_NEAR(result.gradients[0], 0.0, 1e-9);
  EXPECT_NEAR(result.gradients[1], -1.0 / 3, 1e-7);
  EXPECT_NEAR(result.gradients[2], 1.0 / 3, 1e-7);
}

TEST_P(BinaryCrossEntropyTest, IsZeroForMissingLabelsAndForWeightsOfZero) {
  const LossResult missing =
      cross_entropy({0, 1}, {1, std::numeric_limits<float>::quiet_NaN()}, {}, 0.0f);
  EXPECT_TRUE(std::isfinite(missing.loss));
  EXPECT_EQ(missing.gradients.at(1), 0.0f);
  const LossResult none = cross_entropy({0, 1}, {1, 1}, {0, 0}, 0.0f);
  EXPECT_EQ(none.loss, 0.0);
  EXPECT_THAT(none.gradients, Each(0.0f));
}

TEST(ActivationFromName, ReadsTorchsSpellingWithArguments) {
  const auto expect = [](const std::string& text, Activation expected) {
    EXPECT_TRUE(activation_from_name(text) == expected) << text;
  };
  expect("nn.ReLU", Activation::kRelu);
  expect("nn.ReLU(inplace=True)", Activation::kRelu);
  expect("nn.SiLU()", Activation::kSilu);
  expect("", Activation::kNone);
  expect("nn.LeakyReLU", {Activation::kLeakyRelu, 0.01f});
  expect("nn.LeakyReLU(negative_slope=0.2)", {Activation::kLeakyRelu, 0.2f});
  expect("nn.LeakyReLU( 0.2 )", {Activation::kLeakyRelu, 0.2f});
  expect("nn.Softplus(1, threshold = 10)", {Activation::kSoftplus, 1.0f, 10.0f});
  expect("nn.GELU(approximate='tanh')", Activation::kGeluTanh);
  expect("nn.PReLU", {Activation::kPrelu, 0.25f});
  expect("nn.PReLU(num_parameters=1, init=0.1)", {Activation::kPrelu, 0.1f});
  expect("Dice", Activation::kDice);
}

TEST(ActivationFromName, RefusesWhatItDoesNotKnow) {
  const auto fails = [](const std::string& text, const std::string& message) {
    EXPECT_THAT([&] { activation_from_name(text); }, ThrowsMessage<Error>(HasSubstr(message)));
  };
  fails("nn.Relu", "unknown activation 'nn.Relu'; did you mean nn.ReLU?");
  fails("nn.Relu", "nn.GELU");
  fails("nn.LeakyReLU(slope=0.2)", "unknown argument 'slope' (known: negative_slope)");
  fails("nn.LeakyReLU(0.1, 0.2)", "unknown argument '0.2'");
  fails("nn.LeakyReLU(negative_slope=x)", "'x' is not a number");
  fails("nn.ELU(alpha=1", "')' is missing at its end");
  fails("nn.ReLU(1)", "unknown argument '1'; it has none");
  fails("__import__('os')", "unknown activation '__import__'");
  fails("nn.PReLU(num_parameters=4)", "num_parameters above 1");
}

}  // namespace
}  // namespace emblem
