// Every op, and small models made of them, against central finite differences: one row a case.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>

#include "core/random.h"
#include "core/thread_pool.h"
#include "nn/graph.h"

namespace emblem {
namespace {

using MakeInput = std::function<Node(int64_t cols)>;

struct GradientCase {
  std::string name;
  int64_t rows;
  std::function<Node(Graph&, const MakeInput&)> build;
};
std::ostream& operator<<(std::ostream& out, const GradientCase& c) { return out << c.name; }

// The case's output, projected to one random direction a row, under a cross entropy.
class Probe {
 public:
  explicit Probe(const GradientCase& c) : graph_(11) {
    const Node out = c.build(graph_, [&](int64_t cols) {
      trained_.push_back(graph_.trained_input("x", cols));
      return trained_.back();
    });
    const Node direction = graph_.input("direction", graph_.cols(out)),
               labels = graph_.input("labels", 1);
    const Node logits = graph_.row_sum(graph_.multiply(out, direction));
    graph_.binary_cross_entropy(logits, labels);
    context_.threads = &pool_;
    graph_.prepare(context_, c.rows + 5);
    graph_.set_rows(c.rows);
    for (size_t i = 0; i < trained_.size(); ++i) fill(graph_.value(trained_[i]), i, 1.0f);
    fill(graph_.value(direction), 100, 1.0f / std::sqrt(static_cast<float>(graph_.cols(out))));
    for (int64_t r = 0; r < c.rows; ++r) graph_.value(labels).data[r] = static_cast<float>(r % 2);
    // Off the symmetric start, where biases are zero and scales one.
    const View<float> parameters = graph_.parameters();
    for (int64_t i = 0; i < parameters.size(); ++i)
      parameters.data[i] += 0.2f * random_normal(3, 200, i);
  }

  // Compares the gradients of parameters and of every input.
  void check() {
    loss();
    graph_.backward(context_);
    const View<float> slopes = graph_.parameter_gradients();
    std::vector<std::pair<View<float>, std::vector<float>>> pairs;
    for (const Parameter& p : graph_.parameter_list()) {
      pairs.push_back({{graph_.parameters().data + p.begin, p.rows, p.cols},
                       copy(slopes.data + p.begin, p.rows * p.cols)});
    }
    for (const Node x : trained_) {
      pairs.push_back({graph_.value(x), copy(graph_.gradient(x).data, graph_.gradient(x).size())});
    }
    for (auto& [values, analytic] : pairs) compare(values, analytic);
    EXPECT_GT(checked_, 0);
    EXPECT_LE(kinks_, checked_ / 5) << "too few places where the function is smooth";
  }

 private:
  static void fill(View<float> values, uint64_t stream, float scale) {
    for (int64_t i = 0; i < values.size(); ++i)
      values.data[i] = scale * random_normal(17, stream, i);
  }
  static std::vector<float> copy(const float* from, int64_t count) { return {from, from + count}; }

  double loss() {
    graph_.forward(context_, Phase::kTrain, /*draw=*/3);
    return graph_.loss(context_);
  }

  double slope_at(float& value, float distance) {
    const float middle = value;
    const float above = middle + distance, below = middle - distance;
    value = above;
    const double high = loss();
    value = below;
    const double low = loss();
    value = middle;
    return (high - low) / (static_cast<double>(above) - below);
  }

  void compare(View<float> values, const std::vector<float>& analytic) {
    constexpr int kSamples = 30;
    float largest = 0.0f;
    for (const float slope : analytic) largest = std::max(largest, std::fabs(slope));
    ASSERT_GT(largest, 0.0f) << "the loss does not depend on it: the case tests nothing";
    Random random{5, static_cast<uint64_t>(values.size())};
    for (int sample = 0; sample < kSamples; ++sample) {
      const int64_t i =
          values.size() <= kSamples ? sample : static_cast<int64_t>(random.below(values.size()));
      if (i >= values.size()) break;
      const double coarse = slope_at(values.data[i], 0.02f), fine = slope_at(values.data[i], 0.01f);
      ++checked_;
      // For smooth functions these differ by terms of the second order only; across the kink of a
      // piecewise linear one there is nothing to compare with.
      if (std::fabs(coarse - fine) > 0.01 * std::fabs(fine) + 0.002 * largest) {
        ++kinks_;
        continue;
      }
      const double numeric = (4.0 * fine - coarse) / 3.0;
      EXPECT_NEAR(analytic[i], numeric, 0.004 * std::fabs(numeric) + 0.003 * largest) << "at " << i;
    }
  }

  ThreadPool pool_{2};
  Context context_;
  Graph graph_;
  std::vector<Node> trained_;
  int checked_ = 0, kinks_ = 0;
};

MlpOptions layers(std::vector<int64_t> units, Activation activation = Activation::kTanh,
                  MlpOptions::Norm norm = MlpOptions::Norm::kNone,
                  std::vector<float> dropout = {}) {
  MlpOptions options;
  options.hidden_units = std::move(units);
  options.activation = activation;
  options.norm = norm;
  options.dropout = std::move(dropout);
  return options;
}

Node dlrm(Graph& g, const MakeInput& input) {
  const Node bottom = g.mlp(input(5), layers({8, 4}));
  return g.linear(g.mlp(g.dlrm_interaction(bottom, input(12), 4), layers({9, 6})), 1);
}

Node deepfm(Graph& g, const MakeInput& input) {
  const Node wide = input(3), deep = input(20);
  return g.sum(
      {g.row_sum(wide), g.row_sum(g.fm(deep, 4)), g.linear(g.mlp(deep, layers({7, 5})), 1)});
}

Node dcn(Graph& g, const MakeInput& input) {
  const Node x = g.concat({input(4), input(9)});
  return g.linear(g.concat({g.cross_v1(x, 3), g.mlp(x, layers({6}))}), 1);
}

Node dcn_v2(Graph& g, const MakeInput& input, int64_t rank) {
  const Node x = g.concat({input(4), input(6)});
  return g.linear(g.concat({g.cross_v2(x, 2, rank), g.mlp(x, layers({6}, Activation::kSilu))}), 1);
}

std::vector<GradientCase> cases() {
  using Norm = MlpOptions::Norm;
  std::vector<GradientCase> list = {
      {"Linear", 7, [](Graph& g, const MakeInput& in) { return g.linear(in(13), 5); }},
      {"LinearOfManyRows", 700,
       [](Graph& g, const MakeInput& in) { return g.linear(in(9), 17, Activation::kTanh); }},
      {"LinearToOneUnit", 600,
       [](Graph& g, const MakeInput& in) { return g.linear(in(37), 1, Activation::kSigmoid); }},
      {"LinearWithALargeMatrix", 5,
       [](Graph& g, const MakeInput& in) { return g.linear(in(800), 700); }},
      {"LinearWithoutBias", 6,
       [](Graph& g, const MakeInput& in) { return g.linear_without_bias(in(4), 3); }},
      {"Bias", 300, [](Graph& g, const MakeInput& in) { return g.bias(in(5)); }},
      {"LinearTwiceOnOneInput", 6,
       [](Graph& g, const MakeInput& in) {
         const Node x = in(6);
         return g.concat({g.linear(x, 3), g.linear(x, 1), g.linear(x, 4)});
       }},
      {"BatchNorm", 12,
       [](Graph& g, const MakeInput& in) { return g.batch_norm(in(5), Activation::kTanh); }},
      {"BatchNormOfManyRows", 777,
       [](Graph& g, const MakeInput& in) { return g.batch_norm(in(3)); }},
      {"BatchNormOfOneRow", 1, [](Graph& g, const MakeInput& in) { return g.batch_norm(in(5)); }},
      {"LayerNorm", 9, [](Graph& g, const MakeInput& in) { return g.layer_norm(in(11)); }},
      {"LayerNormOfManyRows", 600,
       [](Graph& g, const MakeInput& in) { return g.layer_norm(in(6), Activation::kSigmoid); }},
      {"Dropout", 9, [](Graph& g, const MakeInput& in) { return g.dropout(in(11), 0.4f); }},
      {"DotInteraction", 4,
       [](Graph& g, const MakeInput& in) { return g.dot_interaction(in(35), 7); }},
      {"DotInteractionOfOneDimension", 5,
       [](Graph& g, const MakeInput& in) { return g.dot_interaction(in(6), 1); }},
      {"DlrmInteraction", 3,
       [](Graph& g, const MakeInput& in) { return g.dlrm_interaction(in(16), in(5 * 16), 16); }},
      {"DlrmInteractionOfLongVectors", 3,
       [](Graph& g, const MakeInput& in) { return g.dlrm_interaction(in(37), in(8 * 37), 37); }},
      {"InteractionAddsToOtherGradients", 4,
       [](Graph& g, const MakeInput& in) {
         const Node first = in(4), x = in(12);
         return g.concat(
             {g.dlrm_interaction(first, x, 4), g.dot_interaction(x, 4), g.scale(first, 2.0f)});
       }},
      {"Fm", 6, [](Graph& g, const MakeInput& in) { return g.fm(in(15), 5); }},
      {"CrossV1", 300, [](Graph& g, const MakeInput& in) { return g.cross_v1(in(6), 1); }},
      {"CrossV1OfThreeLayers", 8,
       [](Graph& g, const MakeInput& in) { return g.cross_v1(in(7), 3); }},
      {"CrossV2", 8, [](Graph& g, const MakeInput& in) { return g.cross_v2(in(6), 2, 0); }},
      {"CrossV2OfLowRank", 8,
       [](Graph& g, const MakeInput& in) { return g.cross_v2(in(6), 2, 2); }},
      {"ConcatOfOneNodeTwice", 5,
       [](Graph& g, const MakeInput& in) {
         const Node x = in(3), y = in(2);
         return g.concat({x, y, x});
       }},
      {"SlicesThatOverlap", 5,
       [](Graph& g, const MakeInput& in) {
         const Node x = in(7);
         return g.concat({g.slice(x, 0, 3), g.slice(x, 2, 7)});
       }},
      {"SumAndMultiplyAndScale", 5,
       [](Graph& g, const MakeInput& in) {
         const Node x = in(4), y = in(4);
         return g.sum({x, g.multiply(x, y), g.multiply(y, y), g.scale(x, -0.5f), x});
       }},
      {"RowSum", 5, [](Graph& g, const MakeInput& in) { return g.row_sum(in(4)); }},
      {"MlpWithBatchNormAndDropout", 30,
       [](Graph& g, const MakeInput& in) {
         return g.mlp(in(6), layers({8, 5}, Activation::kSigmoid, Norm::kBatch, {0.3f}));
       }},
      {"MlpWithLayerNorm", 10,
       [](Graph& g, const MakeInput& in) {
         return g.mlp(in(6), layers({8, 5}, Activation::kSilu, Norm::kLayer, {0.0f, 0.2f}));
       }},
      {"MlpWithRelu", 4,
       [](Graph& g, const MakeInput& in) {
         return g.mlp(in(6), layers({16, 8}, Activation::kRelu));
       }},
      {"Dlrm", 20, dlrm},
      {"DeepFm", 15, deepfm},
      {"Dcn", 10, dcn},
      {"DcnV2", 10, [](Graph& g, const MakeInput& in) { return dcn_v2(g, in, 0); }},
      {"DcnV2OfLowRank", 10, [](Graph& g, const MakeInput& in) { return dcn_v2(g, in, 3); }},
  };
  const std::pair<const char*, Activation> activations[] = {
      {"Relu", Activation::kRelu}, {"Sigmoid", Activation::kSigmoid},
      {"Tanh", Activation::kTanh}, {"Gelu", Activation::kGelu},
      {"Silu", Activation::kSilu}, {"LeakyRelu", Activation::kLeakyRelu}};
  for (const auto& [name, activation] : activations) {
    const Activation a = activation;
    list.push_back({std::string("Activation") + name, 9,
                    [a](Graph& g, const MakeInput& in) { return g.activation(in(6), a); }});
    list.push_back({std::string("LinearAnd") + name, 9,
                    [a](Graph& g, const MakeInput& in) { return g.linear(in(6), 5, a); }});
    list.push_back({std::string("BatchNormAnd") + name, 9,
                    [a](Graph& g, const MakeInput& in) { return g.batch_norm(in(6), a); }});
  }
  return list;
}

class GradientTest : public testing::TestWithParam<GradientCase> {};

TEST_P(GradientTest, AgreesWithFiniteDifferences) { Probe(GetParam()).check(); }

INSTANTIATE_TEST_SUITE_P(, GradientTest, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace emblem
