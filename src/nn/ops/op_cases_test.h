// nn/ops/op_cases_test.h - every op, and small models made of them: what the tests of gradients and
// of devices run on, one row per case.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "core/device/device_test.h"
#include "core/math/random.h"
#include "nn/graph.h"
#include "nn/matching.h"

namespace emblem {

// Adds inputs of the batch or of the case's sequence: trained ones, and constants of one column.
class MakeInput {
 public:
  using Make = std::function<Node(int64_t cols, Space space)>;
  using ValueOf = std::function<double(int64_t row)>;
  enum class Constant { kNumbers, kIds };
  using MakeConstant = std::function<Node(Constant kind, Space space, ValueOf value_of)>;
  MakeInput(Make make, MakeConstant make_constant, Space sequence)
      : make_(std::move(make)), make_constant_(std::move(make_constant)), sequence_(sequence) {}
  Node operator()(int64_t cols) const { return make_(cols, {}); }
  Node elements(int64_t cols) const { return make_(cols, sequence_); }
  Node constant(Constant kind, Space space, ValueOf value_of) const {
    return make_constant_(kind, space, std::move(value_of));
  }
  Space sequence() const { return sequence_; }

 private:
  Make make_;
  MakeConstant make_constant_;
  Space sequence_;
};

struct OpCase {
  std::string name;
  int64_t rows;
  std::function<Node(Graph&, const MakeInput&)> build;
  // Length of the sequence of each row; empty: there is no sequence.
  std::vector<int32_t> lengths = {};
};
inline std::ostream& operator<<(std::ostream& out, const OpCase& c) { return out << c.name; }

inline std::vector<float> random_normals(int64_t count, uint64_t stream, float scale) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = scale * random_normal(17, stream, i);
  return values;
}

// A case's output, projected to one random direction a row, under a cross entropy; with inputs
// and parameters drawn at random.
class OpProbe {
 public:
  OpProbe(const Context& context, const OpCase& c, DType precision = DType::kF32)
      : context_(context), graph_(11) {
    const Space sequence = c.lengths.empty() ? Space{} : graph_.add_sequence("sequence");
    const auto make = [&](int64_t cols, Space space) {
      inputs_.push_back(graph_.trained_input("x", cols, space));
      return inputs_.back();
    };
    const auto make_constant = [&](MakeInput::Constant kind, Space space,
                                   const MakeInput::ValueOf& value_of) {
      const Node node = kind == MakeInput::Constant::kIds ? id_input_of(graph_, "ids", space)
                                                          : graph_.input("numbers", 1, space);
      constants_.push_back({kind, node, value_of});
      return node;
    };
    out_ = c.build(graph_, {make, make_constant, sequence});
    const Node direction = graph_.input("direction", graph_.cols(out_), graph_.space(out_)),
               labels = graph_.input("labels", 1);
    Node logits = graph_.row_sum(graph_.multiply(out_, direction));
    if (graph_.space(logits) != Space{}) logits = graph_.segment_sum(logits);
    graph_.minimize(losses::BinaryCrossEntropy{}, logits, {.labels = labels});
    graph_.prepare(context_, c.rows + 5, precision);
    graph_.set_rows(c.rows);
    if (sequence != Space{}) set_lengths(sequence, c.lengths);
    for (size_t i = 0; i < inputs_.size(); ++i) fill(inputs_[i], i, 1.0f);
    for (const ConstantInput& constant : constants_) fill_constant(constant);
    fill(direction, 100, 1.0f / std::sqrt(static_cast<float>(graph_.cols(out_))));
    std::vector<float> label(c.rows);
    for (int64_t r = 0; r < c.rows; ++r) label[r] = static_cast<float>(r % 2);
    to_device(context_, label, graph_.value(labels));
    // Off the symmetric start, where biases are zero and scales one.
    std::vector<float> parameters = to_host(context_, graph_.parameters());
    for (const Parameter& of : graph_.parameter_list()) {
      for (int64_t i = of.begin; i < of.begin + of.rows * of.cols; ++i)
        parameters[i] += 0.2f * random_normal(3, 200, i);
    }
    to_device(context_, parameters, graph_.parameters());
  }

  double forward() {
    graph_.forward(context_, Phase::kTrain, /*draw=*/3);
    return graph_.loss(context_);
  }
  void backward() { graph_.backward(context_); }

  // Values and gradients of everything that is trained, piece by piece: parameters, then inputs.
  struct Trained {
    std::string name;
    View<float> values, gradients;
  };
  std::vector<Trained> trained() {
    std::vector<Trained> list;
    const auto part = [&](View<float> all, const Parameter& p) {
      return View<float>{all.data + p.begin, p.rows, p.cols, all.device};
    };
    for (const Parameter& p : graph_.parameter_list()) {
      list.push_back({p.name, part(graph_.parameters(), p), part(graph_.parameter_gradients(), p)});
    }
    for (const Node x : inputs_)
      list.push_back({cat("input ", x.id), graph_.value(x), graph_.gradient(x)});
    return list;
  }
  void set_loss_scale(float scale) { graph_.set_loss_scale(scale); }
  bool overflowed() const { return graph_.overflowed(context_); }
  View<float> output() { return graph_.value(out_); }
  View<float> statistics() { return graph_.statistics(); }
  const Context& context() const { return context_; }

 private:
  void set_lengths(Space sequence, const std::vector<int32_t>& lengths) {
    std::vector<int32_t> offsets = {0};
    for (const int32_t length : lengths) offsets.push_back(offsets.back() + length);
    const auto there = Buffer<int32_t>::from(context_, offsets);
    graph_.set_elements(context_, sequence, there.view(), offsets.back());
    context_.synchronize();
  }
  struct ConstantInput {
    MakeInput::Constant kind;
    Node node;
    MakeInput::ValueOf value_of;
  };
  void fill_constant(const ConstantInput& constant) {
    const auto feed = [&](auto view) {
      std::vector<std::remove_reference_t<decltype(*view.data)>> values;
      for (int64_t i = 0; i < view.rows; ++i)
        values.push_back(static_cast<typename decltype(values)::value_type>(constant.value_of(i)));
      to_device(context_, values, view);
    };
    if (constant.kind == MakeInput::Constant::kIds)
      feed(graph_.ids(constant.node));
    else
      feed(graph_.value(constant.node));
  }
  void fill(Node node, uint64_t stream, float scale) {
    const View<float> values = graph_.value(node);
    to_device(context_, random_normals(values.size(), stream, scale), values);
  }

  Context context_;
  Graph graph_;
  std::vector<Node> inputs_;
  std::vector<ConstantInput> constants_;
  Node out_;
};

// The loss of a ranking of items, `count` of them, some of which are equal and whose scores are
// corrected; the last `own` ones are candidates of single rows.
inline Node corrected_ranks(Graph& g, const MakeInput& in, CandidateOptions options, Space space,
                            int64_t rows, int64_t count, int64_t own) {
  const Node users = in(6), items = space == Space{} ? in(6) : in.elements(6);
  using Constant = MakeInput::Constant;
  options.ids = in.constant(Constant::kIds, space, [=](int64_t i) { return i * i % (rows + 3); });
  options.corrections =
      in.constant(Constant::kNumbers, space, [](int64_t i) { return 0.3 * (i % 7) - 1.0; });
  if (own > 0)
    options.candidate_of = in.constant(Constant::kIds, space, [=](int64_t i) {
      return i < count - own ? -1 : (i - count + own) * rows / own;
    });
  return g.slice(rank_candidates(g, users, items, options), 0, 1);
}

inline MlpOptions layers(std::vector<int64_t> units, Activation activation = Activation::kTanh,
                         MlpOptions::Norm norm = MlpOptions::Norm::kNone,
                         std::vector<float> dropout = {}) {
  MlpOptions options;
  options.hidden_units = std::move(units);
  options.activation = activation;
  options.norm = norm;
  options.dropout = std::move(dropout);
  return options;
}

inline Node dlrm(Graph& g, const MakeInput& input) {
  const Node bottom = g.mlp(input(5), layers({8, 4}));
  return g.linear(g.mlp(g.dlrm_interaction(bottom, input(12), 4), layers({9, 6})), 1);
}

inline Node deepfm(Graph& g, const MakeInput& input) {
  const Node wide = input(3), deep = input(20);
  return g.sum(
      {g.row_sum(wide), g.row_sum(g.fm(deep, 4)), g.linear(g.mlp(deep, layers({7, 5})), 1)});
}

inline Node dcn(Graph& g, const MakeInput& input) {
  const Node x = g.concat({input(4), input(9)});
  return g.linear(g.concat({g.cross_v1(x, 3), g.mlp(x, layers({6}))}), 1);
}

inline Node dcn_v2(Graph& g, const MakeInput& input, int64_t rank) {
  const Node x = g.concat({input(4), input(6)});
  return g.linear(g.concat({g.cross_v2(x, 2, rank), g.mlp(x, layers({6}, Activation::kSilu))}), 1);
}

inline std::vector<OpCase> op_cases() {
  using Norm = MlpOptions::Norm;
  std::vector<OpCase> list = {
      {"Linear", 7, [](Graph& g, const MakeInput& in) { return g.linear(in(13), 5); }},
      {"RankItemsOfTheBatch", 70,
       [](Graph& g, const MakeInput& in) {
         return g.slice(rank_candidates(g, in(5), in(5), {.temperature = 0.7f}), 0, 1);
       }},
      {"RankWideVectorsOfTheBatch", 40,
       [](Graph& g, const MakeInput& in) {
         const Node users = g.normalize(in(150)), items = g.normalize(in(150));
         return g.slice(rank_candidates(g, users, items, {.temperature = 0.1f}), 0, 1);
       }},
      {"RankCorrectedItemsOfTheBatch", 70,
       [](Graph& g, const MakeInput& in) {
         return corrected_ranks(g, in, {.temperature = 0.7f}, {}, 70, 70, 0);
       }},
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
       [](Graph& g, const MakeInput& in) { return g.dlrm_interaction({}, in(35), 7); }},
      {"DotInteractionOfManyVectors", 2,
       [](Graph& g, const MakeInput& in) { return g.dlrm_interaction({}, in(2 * 160), 2); }},
      {"DotInteractionOfOneDimension", 5,
       [](Graph& g, const MakeInput& in) { return g.dlrm_interaction({}, in(6), 1); }},
      {"DlrmInteraction", 3,
       [](Graph& g, const MakeInput& in) { return g.dlrm_interaction(in(16), in(5 * 16), 16); }},
      {"DlrmInteractionOfLongVectors", 3,
       [](Graph& g, const MakeInput& in) { return g.dlrm_interaction(in(37), in(8 * 37), 37); }},
      {"InteractionAddsToOtherGradients", 4,
       [](Graph& g, const MakeInput& in) {
         const Node first = in(4), x = in(12);
         return g.concat(
             {g.dlrm_interaction(first, x, 4), g.dlrm_interaction({}, x, 4), g.scale(first, 2.0f)});
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
      {"SumOfManyParts", 7,
       [](Graph& g, const MakeInput& in) {
         std::vector<Node> parts(2, in(9));
         for (int k = 0; k < 9; ++k) parts.push_back(in(9));
         return g.sum(parts);
       }},
      {"ScaleBySigmoid", 5,
       [](Graph& g, const MakeInput& in) {
         const Node x = in(5), z = in(5);
         return g.sum({g.scale_by_sigmoid(x, z, 2.0f), g.scale_by_sigmoid(z, z, 0.5f)});
       }},
      {"RowSum", 5, [](Graph& g, const MakeInput& in) { return g.row_sum(in(4)); }},
      {"Softmax", 9, [](Graph& g, const MakeInput& in) { return g.softmax(in(5)); }},
      {"SoftmaxOfManyColumns", 5, [](Graph& g, const MakeInput& in) { return g.softmax(in(70)); }},
      {"Normalize", 9, [](Graph& g, const MakeInput& in) { return g.normalize(in(6)); }},
      {"Mix", 30,
       [](Graph& g, const MakeInput& in) {
         const Node gate = g.softmax(in(3)), first = in(5), second = in(5), third = in(5);
         return g.concat({g.mix(gate, {first, second, third}), g.mix(in(2), {third, first})});
       }},
      {"MixOfManyExperts", 6,
       [](Graph& g, const MakeInput& in) {
         std::vector<Node> experts;
         for (int k = 0; k < 19; ++k) experts.push_back(in(8));
         return g.mix(in(19), experts);
       }},
      {"MixVectors", 300,
       [](Graph& g, const MakeInput& in) { return g.mix_vectors(in(4 * 3), 3, 5); }},
      {"CompressedProducts", 20,
       [](Graph& g, const MakeInput& in) { return g.compressed_products(in(5 * 4), 4, 3); }},
      {"CinLayer", 20,
       [](Graph& g, const MakeInput& in) { return g.cin_layer(in(2 * 3), in(4 * 3), 3, 5); }},
      {"CinLayers", 12,
       [](Graph& g, const MakeInput& in) {
         const Node x = in(3 * 4), y = g.cin_layer(x, x, 4, 5);
         return g.concat({g.vector_sums(y, 4), g.vector_sums(g.cin_layer(y, x, 4, 2), 4)});
       }},
      {"VectorSums", 6, [](Graph& g, const MakeInput& in) { return g.vector_sums(in(12), 3); }},
      {"LayerNormOfVectors", 40,
       [](Graph& g, const MakeInput& in) { return g.layer_norm_vectors(in(4 * 6), 6); }},
      {"Autodis", 30,
       [](Graph& g, const MakeInput& in) { return g.autodis(in(3), 4, 5, 0.7f, 0.8f); }},
      {"VariationalDropout", 400,
       [](Graph& g, const MakeInput& in) {
         return g.variational_dropout(in(7), {0, 2, 6}, 2.0f, "p_loss");
       }},
      {"MlpWithBatchNormAndDropout", 30,
       [](Graph& g, const MakeInput& in) {
         return g.mlp(in(6), layers({8, 5}, Activation::kSigmoid, Norm::kBatch, {0.3f}));
       }},
      {"MlpWithLayerNorm", 10,
       [](Graph& g, const MakeInput& in) {
         return g.mlp(in(6), layers({8, 5}, Activation::kSilu, Norm::kLayer, {0.0f, 0.2f}));
       }},
      {"PreluOfManyRows", 700,
       [](Graph& g, const MakeInput& in) { return g.activation(in(5), Activation::kPrelu); }},
      {"DiceOfManyRows", 700,
       [](Graph& g, const MakeInput& in) { return g.activation(in(5), Activation::kDice); }},
      {"MlpWithDiceAndDropout", 20,
       [](Graph& g, const MakeInput& in) {
         return g.mlp(in(6), layers({8, 5}, Activation::kDice, Norm::kNone, {0.2f}));
       }},
      {"MlpWithBatchNormAndDice", 20,
       [](Graph& g, const MakeInput& in) {
         return g.mlp(in(6), layers({8, 5}, Activation::kDice, Norm::kBatch));
       }},
      {"MlpWithPrelu", 4,
       [](Graph& g, const MakeInput& in) {
         return g.mlp(in(6), layers({9, 4}, Activation::kPrelu));
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
      {"Relu", Activation::kRelu},
      {"Sigmoid", Activation::kSigmoid},
      {"Tanh", Activation::kTanh},
      {"Gelu", Activation::kGelu},
      {"Silu", Activation::kSilu},
      {"LeakyRelu", Activation::kLeakyRelu},
      {"SteepLeakyRelu", {Activation::kLeakyRelu, 0.3f}},
      {"GeluTanh", Activation::kGeluTanh},
      {"Elu", Activation::kElu},
      {"Selu", Activation::kSelu},
      {"Celu", {Activation::kCelu, 2.0f}},
      {"Softplus", Activation::kSoftplus},
      {"Softsign", Activation::kSoftsign},
      {"Hardswish", Activation::kHardswish},
      {"Hardsigmoid", Activation::kHardsigmoid},
      {"Hardtanh", {Activation::kHardtanh, -2.0f, 2.0f}},
      {"Relu6", Activation::kRelu6},
      {"Mish", Activation::kMish},
      {"LogSigmoid", Activation::kLogSigmoid},
      {"Prelu", Activation::kPrelu},
      {"Dice", Activation::kDice}};
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

// Shapes of real models, too slow for finite differences.
inline std::vector<OpCase> large_op_cases() {
  const auto relu = [](std::vector<int64_t> units) {
    return layers(std::move(units), Activation::kRelu);
  };
  return {
      {"LargeLinear", 700,
       [](Graph& g, const MakeInput& in) { return g.linear(in(479), 512, Activation::kRelu); }},
      {"LargeLinearOfOneUnit", 5000,
       [](Graph& g, const MakeInput& in) { return g.linear(in(256), 1); }},
      {"LargeDlrm", 300,
       [relu](Graph& g, const MakeInput& in) {
         const Node bottom = g.mlp(in(13), relu({512, 256, 128}));
         const Node x = g.dlrm_interaction(bottom, in(26 * 128), 128);
         return g.linear(g.mlp(x, relu({256, 128})), 1);
       }},
      {"LargeInteractionOfSixteen", 700,
       [](Graph& g, const MakeInput& in) { return g.dlrm_interaction(in(16), in(26 * 16), 16); }},
      {"LargeInteractionOfFortyEight", 300,
       [](Graph& g, const MakeInput& in) { return g.dlrm_interaction({}, in(12 * 48), 48); }},
      {"LargeInteractionOfFortyVectors", 100,
       [](Graph& g, const MakeInput& in) { return g.dlrm_interaction(in(64), in(39 * 64), 64); }},
      {"LargeInteractionOfNineVectors", 100,
       [](Graph& g, const MakeInput& in) { return g.dlrm_interaction(in(32), in(8 * 32), 32); }},
      {"LargeInteractionOfThirtyTwoVectors", 100,
       [](Graph& g, const MakeInput& in) { return g.dlrm_interaction({}, in(32 * 64), 64); }},
      {"LargeInteractionOfRowsBeyondSharedMemory", 3,
       [](Graph& g, const MakeInput& in) {
         return g.dlrm_interaction(in(512), in(50 * 512), 512);
       }},
      {"LargeBatchNorm", 20000,
       [](Graph& g, const MakeInput& in) { return g.batch_norm(in(67), Activation::kRelu); }},
      {"LargeLayerNorm", 9000,
       [](Graph& g, const MakeInput& in) { return g.layer_norm(in(130), Activation::kTanh); }},
      {"LargeCross", 9000, [](Graph& g, const MakeInput& in) { return g.cross_v1(in(77), 2); }},
      // Rows that begin at odd places, and products of them.
      {"LargeDcn", 3000,
       [relu](Graph& g, const MakeInput& in) {
         const Node x = g.concat({in(13), in(300)});
         return g.linear(g.concat({g.cross_v1(x, 2), g.mlp(x, relu({100, 50}))}), 4);
       }},
      {"LargeDcnV2", 3000,
       [relu](Graph& g, const MakeInput& in) {
         const Node x = g.concat({in(13), in(112)});
         return g.linear(g.concat({g.cross_v2(x, 2, 20), g.mlp(x, relu({100, 64}))}), 1);
       }},
      {"LargeDcnV2WithoutOtherLayers", 3000,
       [](Graph& g, const MakeInput& in) {
         return g.linear(g.cross_v2(g.concat({in(13), in(64)}), 2, 0), 1);
       }},
      {"LargeLayersOfOddWidths", 3000,
       [relu](Graph& g, const MakeInput& in) {
         const Node x = g.mlp(in(101), relu({77, 33}));
         return g.linear(g.linear(x, 19, Activation::kSigmoid), 1);
       }},
      {"LargeMaskBlocksOfOddWidths", 3000,
       [relu](Graph& g, const MakeInput& in) {
         const Node x = g.concat({in(13), in(96)}), h = g.layer_norm(x);
         std::vector<Node> blocks;
         for (const Activation activation : {Activation::kRelu, Activation::kSigmoid}) {
           const Node mask = g.linear(g.mlp(x, relu({171})), 109);
           blocks.push_back(g.layer_norm(g.linear(g.multiply(h, mask), 75), activation));
         }
         return g.linear(g.concat(blocks), 1);
       }},
      {"LargeElementwiseLayersOfOddWidths", 3000,
       [](Graph& g, const MakeInput& in) {
         const Node x = in(64), y = g.linear(x, 77), z = g.linear(x, 77);
         const Node gated = g.scale_by_sigmoid(g.scale(y, 0.5f), z, 2.0f);
         const Node sum = g.sum({gated, g.activation(z, Activation::kSilu), g.multiply(y, z), y});
         return g.linear(g.concat({g.slice(sum, 3, 40), g.slice(sum, 20, 77)}), 30);
       }},
      {"LargeGatesOfStoppedInputs", 3000,
       [](Graph& g, const MakeInput& in) {
         const Node x = in(96), input = g.concat({in(21), g.stop_gradient(x)});
         Node y = x;
         for (const int64_t units : {64, 40}) {
           const Node gate = g.linear(g.linear(input, units, Activation::kRelu), units);
           y = g.scale_by_sigmoid(g.linear(y, units, Activation::kRelu), gate, 2.0f);
         }
         return y;
       }},
      {"LargeMixtureOfOddWidths", 3000,
       [relu](Graph& g, const MakeInput& in) {
         const Node x = in(104);
         std::vector<Node> experts, towers;
         for (int k = 0; k < 3; ++k) experts.push_back(g.mlp(x, relu({50, 21})));
         for (int task = 0; task < 2; ++task)
           towers.push_back(g.mix(g.softmax(g.linear(x, 3)), experts));
         return g.linear(g.concat(towers), 5);
       }},
      {"LargeLayerNormOfAlignedRows", 9000,
       [](Graph& g, const MakeInput& in) { return g.layer_norm(in(136), Activation::kRelu); }},
      {"LargeLayerNormOfVectors", 2000,
       [](Graph& g, const MakeInput& in) { return g.layer_norm_vectors(in(13 * 16), 16); }},
      {"LargeConcatOfManyParts", 3000,
       [](Graph& g, const MakeInput& in) {
         std::vector<Node> parts;
         for (int64_t cols = 1; cols < 12; ++cols) parts.push_back(in(cols));
         return g.linear(g.concat(parts), 40, Activation::kRelu);
       }},
      {"LargeDropout", 9000, [](Graph& g, const MakeInput& in) { return g.dropout(in(33), 0.3f); }},
      {"LargeMixture", 3000,
       [relu](Graph& g, const MakeInput& in) {
         const Node x = in(304);
         std::vector<Node> experts, towers;
         for (int k = 0; k < 4; ++k) experts.push_back(g.mlp(x, relu({96, 64})));
         for (int task = 0; task < 2; ++task)
           towers.push_back(g.mix(g.softmax(g.linear(x, 4)), experts));
         return g.concat(towers);
       }},
      {"LargeMixVectors", 2000,
       [](Graph& g, const MakeInput& in) { return g.mix_vectors(in(27 * 16), 16, 33); }},
      {"LargeCompressedProducts", 1000,
       [](Graph& g, const MakeInput& in) { return g.compressed_products(in(27 * 32), 32, 16); }},
      {"LargeCinLayer", 500,
       [](Graph& g, const MakeInput& in) { return g.cin_layer(in(20 * 16), in(10 * 16), 16, 30); }},
      {"LargeCinLayers", 301,  // more than a tile of everything
       [](Graph& g, const MakeInput& in) {
         const Node x = in(37 * 8), y = g.cin_layer(x, x, 8, 45);
         return g.concat({g.vector_sums(y, 8), g.vector_sums(g.cin_layer(y, x, 8, 33), 8)});
       }},
      {"CinLayerOfWideVectors", 30,
       [](Graph& g, const MakeInput& in) { return g.cin_layer(in(5 * 22), in(33 * 22), 22, 6); }},
      {"CinLayerOfManyVectors", 10,  // more than fit tensor cores
       [](Graph& g, const MakeInput& in) { return g.cin_layer(in(3 * 4), in(200 * 4), 4, 3); }},
      {"MixOfOddVectors", 700,
       [](Graph& g, const MakeInput& in) { return g.mix_vectors(in(40 * 7), 7, 35); }},
      {"LayerNormOfWideVectors", 100,
       [](Graph& g, const MakeInput& in) { return g.layer_norm_vectors(in(3 * 256), 256); }},
      {"LargeAutodis", 2000,
       [](Graph& g, const MakeInput& in) { return g.autodis(in(13), 16, 40, 0.5f, 0.8f); }},
      {"LargeDice", 9000,
       [](Graph& g, const MakeInput& in) { return g.activation(in(40), Activation::kDice); }},
      {"LargeFm", 5000, [](Graph& g, const MakeInput& in) { return g.fm(in(39 * 16), 16); }},
  };
}

}  // namespace emblem
