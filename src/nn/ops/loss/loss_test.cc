// Losses and their gradients against plain formulas in double precision.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <limits>

#include "core/device/device_test.h"
#include "core/math/random.h"
#include "nn/graph.h"

namespace emblem {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

using Row = std::vector<double>;

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double entropy(double p, double y) { return -y * std::log(p) - (1 - y) * std::log(1 - p); }

struct LossCase {
  std::string name;
  int64_t cols;
  std::function<void(Graph&, Node, const Graph::Target&)> build;
  // The loss of a row; `stopped` is x where no derivative is taken.
  std::function<double(const Row& x, const Row& stopped, double label)> formula;
};
std::ostream& operator<<(std::ostream& out, const LossCase& c) { return out << c.name; }

std::vector<LossCase> loss_cases() {
  const auto cross_entropy = [](double smoothing) {
    return [=](const Row& x, const Row&, double y) {
      return entropy(sigmoid(x[0]), y * (1 - smoothing) + smoothing / 2);
    };
  };
  const auto softmax = [](double smoothing) {
    return [=](const Row& x, const Row&, double label) {
      double sum = 0.0, loss = 0.0;
      for (const double v : x) sum += std::exp(v);
      for (size_t c = 0; c < x.size(); ++c) {
        const double target = (static_cast<double>(c) == label ? 1 - smoothing : 0.0) +
                              smoothing / static_cast<double>(x.size());
        loss -= target * std::log(std::exp(x[c]) / sum);
      }
      return loss;
    };
  };
  return {
      {"BinaryCrossEntropy", 1,
       [](Graph& g, Node x, const Graph::Target& t) {
         g.minimize(losses::BinaryCrossEntropy{}, x, t);
       },
       cross_entropy(0.0)},
      {"BinaryCrossEntropySmoothed", 1,
       [](Graph& g, Node x, const Graph::Target& t) {
         g.minimize(losses::BinaryCrossEntropy{0.2f}, x, t);
       },
       cross_entropy(0.2)},
      {"SoftmaxOfTwo", 2,
       [](Graph& g, Node x, const Graph::Target& t) {
         g.minimize(losses::SoftmaxCrossEntropy{}, x, t);
       },
       softmax(0.0)},
      {"SoftmaxOfFiveSmoothed", 5,
       [](Graph& g, Node x, const Graph::Target& t) {
         g.minimize(losses::SoftmaxCrossEntropy{0.1f}, x, t);
       },
       softmax(0.1)},
      {"Focal", 1,
       [](Graph& g, Node x, const Graph::Target& t) {
         g.minimize(losses::BinaryFocalLoss{2.0f, 0.25f}, x, t);
       },
       [](const Row& x, const Row& stopped, double y) {
         const double p = sigmoid(stopped[0]);
         return entropy(sigmoid(x[0]), y) *
                (0.25 * y * std::pow(1 - p, 2) + 0.75 * (1 - y) * std::pow(p, 2));
       }},
      {"L2", 1,
       [](Graph& g, Node x, const Graph::Target& t) { g.minimize(losses::L2Loss{}, x, t); },
       [](const Row& x, const Row&, double y) { return (x[0] - y) * (x[0] - y); }},
      {"L2OfStandardizedLabels", 1,
       [](Graph& g, Node x, const Graph::Target& t) {
         g.minimize(losses::L2Loss{3.0f, 2.0f}, x, t);
       },
       [](const Row& x, const Row&, double y) { return std::pow(x[0] - (y - 3) / 2, 2); }},
  };
}

// Values of a loss and what it was computed from. Labels are in column 1 of 3, an indicator in
// column 2, weights in column 1 of 2.
struct LossBench {
  Context context;
  const LossCase& c;
  int64_t rows;
  Graph graph{1};
  Graph::Target target;
  Node x;
  std::vector<float> logits, labels, weights;

  LossBench(
      const Context& context, const LossCase& c, int64_t rows,
      const std::function<void(Graph::Target&)>& change = [](auto&) {},
      DType precision = DType::kF32)
      : context(context), c(c), rows(rows) {
    x = graph.trained_input("x", c.cols);
    target.labels = graph.input("labels", 3);
    target.label = 1;
    target.weights = graph.input("weights", 2);
    target.weight = 1;
    change(target);
    c.build(graph, x, target);
    graph.prepare(context, rows + 3, precision);
    graph.set_rows(rows);
    logits.resize(rows * c.cols);
    for (size_t i = 0; i < logits.size(); ++i) logits[i] = 2.0f * random_normal(5, 1, i);
    for (int64_t r = 0; r < rows; ++r) {
      labels.insert(labels.end(), {-7.0f, static_cast<float>(r * 7 % std::max<int64_t>(2, c.cols)),
                                   static_cast<float>(r % 3 == 0)});
      weights.insert(weights.end(), {-3.0f, random_uniform(5, 2, r)});
    }
  }
  void run() {
    to_device(context, logits, graph.value(x));
    to_device(context, labels, graph.value(target.labels));
    if (target.weights.id >= 0) to_device(context, weights, graph.value(target.weights));
    graph.forward(context, Phase::kTrain, 0);
    graph.backward(context);
  }
  double weight(int64_t r) const {
    const double sample = target.weights.id < 0 ? 1.0 : weights[r * 2 + 1];
    if (target.indicator < 0) return sample;
    return sample * (labels[r * 3 + target.indicator] > 0 ? target.in_space : target.out_space);
  }
  Row row(int64_t r) const {
    return {logits.begin() + r * c.cols, logits.begin() + (r + 1) * c.cols};
  }
  void expect(double tolerance = 1e-6) {
    run();
    double sum = 0.0, total = 0.0;
    for (int64_t r = 0; r < rows; ++r) {
      sum += weight(r) * c.formula(row(r), row(r), labels[r * 3 + 1]);
      total += weight(r);
    }
    EXPECT_NEAR(graph.loss(context), target.factor * sum / total, tolerance);
    const auto gradients = to_host(context, graph.gradient(x));
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t k = 0; k < c.cols; ++k) {
        Row above = row(r), below = row(r);
        above[k] += 1e-5;
        below[k] -= 1e-5;
        const double label = labels[r * 3 + 1],
                     slope =
                         (c.formula(above, row(r), label) - c.formula(below, row(r), label)) / 2e-5;
        ASSERT_NEAR(gradients[r * c.cols + k], target.factor * weight(r) / total * slope, tolerance)
            << "row " << r << " column " << k;
      }
    }
  }
};

class LossTest : public testing::TestWithParam<std::tuple<LossCase, Device>> {
 protected:
  void SetUp() override {
    context_.device = std::get<1>(GetParam());
    context_.threads = &pool_;
    if (!device_is_usable(context_.device)) GTEST_SKIP() << "no CUDA device here";
  }
  const LossCase& loss_case() { return std::get<0>(GetParam()); }

  ThreadPool pool_{2};
  Context context_;
};
INSTANTIATE_TEST_SUITE_P(, LossTest,
                         testing::Combine(testing::ValuesIn(loss_cases()),
                                          testing::Values(Device::kCpu, Device::kCuda)),
                         [](const auto& info) {
                           return cat(std::get<0>(info.param).name, "_", std::get<1>(info.param));
                         });

TEST_P(LossTest, IsTheWeightedMeanOverRows) {
  for (const int64_t rows : {1, 7, 900}) LossBench(context_, loss_case(), rows).expect();
}

TEST_P(LossTest, IsTheMeanWithoutWeights) {
  LossBench(context_, loss_case(), 300, [](auto& target) { target.weights = {}; }).expect();
}

TEST_P(LossTest, WeighsRowsByTheTaskSpaceAndTheWholeByItsFactor) {
  LossBench(context_, loss_case(), 500, [](auto& target) {
    target.indicator = 2;
    target.in_space = 3.0f;
    target.out_space = 0.25f;
    target.factor = 10.0f;
  }).expect(1e-5);
}

TEST_P(LossTest, IsZeroWhereAllWeightsAre) {
  LossBench bench(context_, loss_case(), 40, [](auto& target) {
    target.indicator = 2;
    target.in_space = 1.0f;
    target.out_space = 0.0f;
  });
  for (int64_t r = 0; r < 40; ++r) bench.labels[r * 3 + 2] = 0.0f;
  bench.run();
  EXPECT_EQ(bench.graph.loss(context_), 0.0);
  EXPECT_THAT(to_host(context_, bench.graph.gradient(bench.x)), Each(0.0f));
}

TEST_P(LossTest, DoesNotCountRowsWithoutALabel) {
  LossBench bench(context_, loss_case(), 40), without(context_, loss_case(), 40);
  for (const int64_t row : {7, 8, 39}) {
    bench.labels[row * 3 + 1] = std::numeric_limits<float>::quiet_NaN();
    without.weights[row * 2 + 1] = 0.0f;
  }
  bench.run();
  without.run();
  EXPECT_EQ(bench.graph.loss(context_), without.graph.loss(context_));
  EXPECT_EQ(to_host(context_, bench.graph.gradient(bench.x)),
            to_host(context_, without.graph.gradient(without.x)));
}

TEST_P(LossTest, IsFiniteAtExtremeLogits) {
  LossBench bench(context_, loss_case(), 40);
  for (size_t i = 0; i < bench.logits.size(); ++i)
    bench.logits[i] = i % 3 == 0 ? 1000.0f : i % 3 == 1 ? -1000.0f : 0.0f;
  bench.run();
  EXPECT_TRUE(std::isfinite(bench.graph.loss(context_)));
  for (const float gradient : to_host(context_, bench.graph.gradient(bench.x)))
    EXPECT_TRUE(std::isfinite(gradient));
}

TEST_P(LossTest, GivesTheSameBytesWithAnyNumberOfThreads) {
  const auto run = [&](const Context& context) {
    LossBench bench(context, loss_case(), 5000);
    bench.run();
    auto values = to_host(context, bench.graph.gradient(bench.x));
    values.push_back(static_cast<float>(bench.graph.loss(context)));
    return values;
  };
  Context alone = context_;
  alone.threads = nullptr;
  ThreadPool three(3);
  Context more = context_;
  more.threads = &three;
  const auto expected = run(alone);
  EXPECT_EQ(run(context_), expected);
  EXPECT_EQ(run(more), expected);
}

// Labels and weights stay in fp32: 300 classes and weights of many digits are exact.
TEST_P(LossTest, ReadsLabelsInFullPrecisionInSixteenBits) {
  if (context_.device != Device::kCuda) GTEST_SKIP() << "16 bits are computed on a GPU only";
  LossBench bench(
      context_, loss_case(), 300, [](auto&) {}, DType::kBf16);
  for (float& logit : bench.logits) logit = std::round(logit);
  bench.expect(1e-2);
}

TEST(SoftmaxCrossEntropy, OfALabelThatNumbersNoColumnIsNotANumber) {
  const LossCase c = loss_cases()[3];
  for (const float label : {-1.0f, 5.0f, 0.5f}) {
    LossBench bench({}, c, 4);
    bench.labels[1] = label;
    bench.run();
    EXPECT_TRUE(std::isnan(bench.graph.loss({}))) << label;
  }
}

class LossesTest : public DeviceTest {};
EMBLEM_TEST_ON_EVERY_DEVICE(LossesTest);

TEST_P(LossesTest, AreReportedOneByOne) {
  Graph g(1);
  const Node x = g.trained_input("x", 1);
  Graph::Target target;
  target.labels = g.input("labels", 2);
  g.minimize(losses::BinaryCrossEntropy{}, x, target);
  target.label = 1;
  target.factor = 2.0f;
  target.name = "l2_loss_price";
  g.minimize(losses::L2Loss{}, x, target);
  g.prepare(context_, 2);
  g.set_rows(1);
  to_device<float>(context_, {0.0f}, g.value(x));
  to_device<float>(context_, {1.0f, 3.0f}, g.value(target.labels));
  g.forward(context_, Phase::kEval, 0);
  EXPECT_THAT(g.loss_names(), ElementsAre("binary_cross_entropy", "l2_loss_price"));
  EXPECT_THAT(g.losses(context_), ElementsAre(testing::DoubleNear(std::log(2.0), 1e-9), 18.0));
  EXPECT_NEAR(g.loss(context_), 18.0 + std::log(2.0), 1e-8);
  g.set_rows(0);
  g.forward(context_, Phase::kEval, 0);
  EXPECT_THAT(g.losses(context_), ElementsAre(0.0, 0.0));
}

TEST(Losses, RefuseWhatIsNoColumnOfTheirInputs) {
  Graph g(1);
  const Node x = g.trained_input("x", 1), wide = g.trained_input("wide", 3);
  Graph::Target target;
  target.labels = g.input("labels", 2);
  const auto fails = [](const auto& body, const std::string& message) {
    EXPECT_THAT(body, ThrowsMessage<Error>(HasSubstr(message)));
  };
  fails([&] { g.minimize(losses::L2Loss{}, wide, target); },
        "l2_loss: 'wide' has 3 columns, but 1 is needed");
  fails([&] { g.minimize(losses::SoftmaxCrossEntropy{}, x, target); }, "'x' has 1 column");
  fails([&] { g.minimize(losses::BinaryFocalLoss{2.0f, 1.0f}, x, target); }, "alpha is 1");
  fails([&] { g.minimize(losses::BinaryCrossEntropy{1.0f}, x, target); }, "label_smoothing is 1");
  target.indicator = 2;
  fails([&] { g.minimize(losses::L2Loss{}, x, target); },
        "column 2 of the labels 'labels', which have 2");
  target.indicator = -1;
  target.weights = wide;
  fails([&] { g.minimize(losses::L2Loss{}, x, target); },
        "the weights are 'wide', which is not an input");
}

}  // namespace
}  // namespace emblem
