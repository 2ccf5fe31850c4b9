// nn/ops/attention/sequence_cases_test.h - ops over the elements of sequences: cases for the tests
// of gradients and of devices.
#pragma once

#include "nn/capsules.h"
#include "nn/ops/op_cases_test.h"

namespace emblem {

// Lengths of `rows` rows from 0 to `most`, some of them 0 and one of them `most`.
inline std::vector<int32_t> random_lengths(int64_t rows, int32_t most) {
  std::vector<int32_t> lengths(rows);
  for (int64_t r = 0; r < rows; ++r) {
    const uint64_t bits = random_bits(23, 0, r);
    lengths[r] = bits % 5 == 0 ? 0 : static_cast<int32_t>((bits >> 8) % (most + 1));
  }
  lengths[rows / 2] = most;
  return lengths;
}

inline OpCase sequence_case(std::string name, std::vector<int32_t> lengths,
                            std::function<Node(Graph&, const MakeInput&)> build) {
  const auto rows = static_cast<int64_t>(lengths.size());
  return {std::move(name), rows, std::move(build), std::move(lengths)};
}

// One element for each row, and `more` for the last one.
inline std::vector<int32_t> item_lengths(int64_t rows, int32_t more) {
  std::vector<int32_t> lengths(rows, 1);
  lengths.back() += more;
  return lengths;
}

inline Node rank_case(Graph& g, const MakeInput& in, Candidates candidates) {
  const Node users = in(6), items = in.elements(6);
  return g.slice(rank_candidates(g, users, items, {.candidates = candidates, .temperature = 0.8f}),
                 0, 1);
}

// With one iteration shares do not depend on the elements, so that finite differences are exact.
inline CapsuleOptions capsule_options(int capsules, int iterations) {
  return {.capsules = capsules, .iterations = iterations, .scale = 1.5f, .squash_power = 0.7f};
}

// The interests of each row, attended to by a vector of the row.
inline Node interests_case(Graph& g, const MakeInput& in, const CapsuleOptions& options) {
  const Node history = in.elements(6), user = in(3), item = in(5);
  const Space space = add_fixed_sequence(g, "interests", options.capsules);
  const auto mask = [&](float there, float missing) {
    return split_vectors(g, capsule_mask(g, history, options, there, missing), space);
  };
  const Node high = split_vectors(g, capsules(g, history, options), space);
  Node x = g.mix(mask(1.0f, 0.0f), {g.concat({g.repeat(user, space), high})});
  x = g.normalize(g.linear_without_bias(g.mix(mask(1.0f, 0.0f), {g.linear(x, 8)}), 5));
  const Node scores = g.sum({g.scale(g.dot_with_row(item, x), 2.0f), mask(0.0f, -1e30f)});
  return g.concat({g.attention_pool(scores, x), join_vectors(g, x)});
}

inline std::vector<OpCase> sequence_cases() {
  return {
      sequence_case("Capsules", {3, 0, 1, 4, 9, 2},
                    [](Graph& g, const MakeInput& in) {
                      return capsules(g, in.elements(5), capsule_options(3, 1));
                    }),
      sequence_case("CapsulesOfTheFirstElements", random_lengths(20, 20),
                    [](Graph& g, const MakeInput& in) {
                      CapsuleOptions options = capsule_options(5, 1);
                      options.count = CapsuleOptions::Count::kFixed;
                      options.most_elements = 7;
                      const Node x = in.elements(6);
                      return g.concat({g.segment_sum(x), capsules(g, x, options)});
                    }),
      sequence_case("Interests", random_lengths(20, 20),
                    [](Graph& g, const MakeInput& in) {
                      return interests_case(g, in, capsule_options(4, 1));
                    }),
      sequence_case("FirstElements", {3, 0, 1, 4},
                    [](Graph& g, const MakeInput& in) {
                      const Node x = in.elements(5);
                      return g.concat({first_elements(g, x), g.segment_sum(x)});
                    }),
      sequence_case(
          "FirstElementsAlone", random_lengths(20, 5),
          [](Graph& g, const MakeInput& in) { return first_elements(g, in.elements(8)); }),
      sequence_case("SplitAndJoinedVectors", {2, 1, 0, 3},
                    [](Graph& g, const MakeInput& in) {
                      const Node x = g.concat({in(9), g.segment_sum(in.elements(3))});
                      const Space space = add_fixed_sequence(g, "thirds", 3);
                      const Node third = split_vectors(g, x, space);
                      return g.concat({join_vectors(g, g.linear(third, 5, Activation::kTanh)),
                                       g.segment_sum(third), x});
                    }),
      sequence_case(
          "RankNegatives", item_lengths(4, 3),
          [](Graph& g, const MakeInput& in) { return rank_case(g, in, Candidates::kNegatives); }),
      sequence_case(
          "RankManyNegatives", item_lengths(70, 1500),
          [](Graph& g, const MakeInput& in) { return rank_case(g, in, Candidates::kNegatives); }),
      sequence_case(
          "RankItemsAndNegatives", item_lengths(67, 40),
          [](Graph& g, const MakeInput& in) { return rank_case(g, in, Candidates::kAllItems); }),
      sequence_case("RankCorrectedNegatives", item_lengths(50, 300),
                    [](Graph& g, const MakeInput& in) {
                      return corrected_ranks(
                          g, in, {.candidates = Candidates::kNegatives, .temperature = 0.8f},
                          in.sequence(), 50, 350, 0);
                    }),
      sequence_case("RankHardNegatives", item_lengths(40, 160),
                    [](Graph& g, const MakeInput& in) {
                      return corrected_ranks(
                          g, in, {.candidates = Candidates::kNegatives, .temperature = 0.8f},
                          in.sequence(), 40, 200, 100);
                    }),
      sequence_case("RankItemsAndHardNegativesOfSomeRows", item_lengths(70, 25),
                    [](Graph& g, const MakeInput& in) {
                      return corrected_ranks(g, in, {.temperature = 0.8f}, in.sequence(), 70, 95,
                                             25);
                    }),
      sequence_case("Repeat", {3, 0, 1, 4},
                    [](Graph& g, const MakeInput& in) { return g.repeat(in(5), in.sequence()); }),
      sequence_case("RepeatOfManyRows", random_lengths(60, 9),
                    [](Graph& g, const MakeInput& in) {
                      const Node x = in(8), y = in.elements(8);
                      return g.multiply(g.repeat(x, in.sequence()), y);
                    }),
      sequence_case("SegmentSum", {3, 0, 1, 4},
                    [](Graph& g, const MakeInput& in) { return g.segment_sum(in.elements(5)); }),
      sequence_case("SegmentMean", random_lengths(60, 9),
                    [](Graph& g, const MakeInput& in) { return g.segment_mean(in.elements(8)); }),
      sequence_case("SegmentSumsAndMeansOfOneNode", {2, 3, 0},
                    [](Graph& g, const MakeInput& in) {
                      const Node x = in.elements(3);
                      return g.concat({g.segment_sum(x), g.segment_mean(x), g.segment_sum(x)});
                    }),
      sequence_case("WindowMeans", {0, 1, 2, 3, 6, 7, 9},
                    [](Graph& g, const MakeInput& in) {
                      return g.window_means(in.elements(4), {2, 4, 1});
                    }),
      sequence_case("AttentionPool", {3, 0, 1, 4, 2},
                    [](Graph& g, const MakeInput& in) {
                      return g.attention_pool(in.elements(1), in.elements(5));
                    }),
      sequence_case("AttentionPoolOfManyElements", random_lengths(20, 70),
                    [](Graph& g, const MakeInput& in) {
                      const Node x = in.elements(8);
                      return g.concat({g.attention_pool(in.elements(1), x), g.segment_sum(x)});
                    }),
      sequence_case("AttentionPoolOfItself", {3, 2, 0},
                    [](Graph& g, const MakeInput& in) {
                      const Node x = in.elements(1);
                      return g.attention_pool(x, x);
                    }),
      sequence_case(
          "DinFeatures", {3, 0, 1, 4},
          [](Graph& g, const MakeInput& in) { return g.din_features(in(5), in.elements(5)); }),
      sequence_case("DinFeaturesOfAShortQuery", random_lengths(20, 9),
                    [](Graph& g, const MakeInput& in) {
                      const Node q = in(3), s = in.elements(5);
                      return g.concat({g.din_features(q, s), g.repeat(q, in.sequence()), s});
                    }),
      sequence_case(
          "DinFeaturesInPackets", random_lengths(20, 9),
          [](Graph& g, const MakeInput& in) { return g.din_features(in(8), in.elements(16)); }),
      sequence_case(
          "DotWithRow", random_lengths(20, 9),
          [](Graph& g, const MakeInput& in) { return g.dot_with_row(in(5), in.elements(5)); }),
      sequence_case("SimpleAttention", random_lengths(20, 40),
                    [](Graph& g, const MakeInput& in) {
                      const Node q = in(8), s = in.elements(8);
                      return g.attention_pool(g.dot_with_row(q, s), s);
                    }),
      sequence_case("SelfAttention", {3, 0, 1, 4},
                    [](Graph& g, const MakeInput& in) {
                      return g.self_attention(in.elements(6), in.elements(6), in.elements(6), 2);
                    }),
      sequence_case("SelfAttentionOfOneNode", {5, 0, 40, 3},
                    [](Graph& g, const MakeInput& in) {
                      const Node x = in.elements(6);
                      return g.self_attention(x, x, x, 3);
                    }),
      sequence_case("SelfAttentionWithDropout", {5, 0, 9, 3},
                    [](Graph& g, const MakeInput& in) {
                      return g.self_attention(in.elements(5), in.elements(5), in.elements(5), 1,
                                              0.4f);
                    }),
      sequence_case("SelfAttentionOfLongRows", {70, 1, 0, 21},
                    [](Graph& g, const MakeInput& in) {
                      const Node x = in.elements(4);
                      return g.segment_mean(g.self_attention(
                          g.linear(x, 4), g.linear_without_bias(x, 4), g.linear(x, 4), 2));
                    }),
      sequence_case("Din", random_lengths(20, 9),
                    [](Graph& g, const MakeInput& in) {
                      const Node q = in(4), s = in.elements(6);
                      const Node h = g.mlp(g.din_features(q, s), layers({8, 5}));
                      return g.concat({g.attention_pool(g.linear_without_bias(h, 1), s), q});
                    }),
      sequence_case("DinMlp", {3, 0, 1, 4, 2, 5},
                    [](Graph& g, const MakeInput& in) {
                      return g.din_mlp(in(5), in.elements(5), layers({7}));
                    }),
      sequence_case("DinMlpOfAShortQuery", random_lengths(20, 9),
                    [](Graph& g, const MakeInput& in) {
                      const Node q = in(4), s = in.elements(6);
                      const Node h = g.din_mlp(q, s, layers({8, 5}));
                      return g.concat({g.attention_pool(g.linear_without_bias(h, 1), s), q});
                    }),
      sequence_case("DinMlpWithDiceAndOtherGradients", random_lengths(20, 9),
                    [](Graph& g, const MakeInput& in) {
                      const Node q = in(8), s = in.elements(8);
                      const Node h = g.din_mlp(q, s, layers({8}, Activation::kDice));
                      return g.concat({g.din_features(q, s), h, g.repeat(q, in.sequence())});
                    }),
      sequence_case("LayersOfElements", random_lengths(30, 7),
                    [](Graph& g, const MakeInput& in) {
                      const Node x = g.concat({g.repeat(in(3), in.sequence()), in.elements(5)});
                      return g.segment_mean(
                          g.mlp(x, layers({6, 4}, Activation::kTanh, MlpOptions::Norm::kBatch)));
                    }),
  };
}

inline std::vector<OpCase> large_sequence_cases() {
  const auto attention = [](std::string name, std::vector<int32_t> lengths, int64_t cols,
                            int64_t heads, float dropout = 0.0f) {
    return sequence_case(std::move(name), std::move(lengths), [=](Graph& g, const MakeInput& in) {
      return g.self_attention(in.elements(cols), in.elements(cols), in.elements(cols), heads,
                              dropout);
    });
  };
  return {
      sequence_case("LargeCapsules", random_lengths(300, 60),
                    [](Graph& g, const MakeInput& in) {
                      return capsules(g, in.elements(40), capsule_options(6, 3));
                    }),
      sequence_case("LargeInterests", random_lengths(200, 40),
                    [](Graph& g, const MakeInput& in) {
                      return interests_case(g, in, capsule_options(7, 2));
                    }),
      sequence_case("LargeAttentionPool", random_lengths(700, 60),
                    [](Graph& g, const MakeInput& in) {
                      return g.attention_pool(in.elements(1), in.elements(72));
                    }),
      sequence_case("LargeAttentionPoolOfWideElements", random_lengths(50, 300),
                    [](Graph& g, const MakeInput& in) {
                      return g.attention_pool(in.elements(1), in.elements(301));
                    }),
      sequence_case(
          "LargeDinFeatures", random_lengths(700, 60),
          [](Graph& g, const MakeInput& in) { return g.din_features(in(32), in.elements(48)); }),
      sequence_case(
          "LargeDotWithRow", random_lengths(700, 60),
          [](Graph& g, const MakeInput& in) { return g.dot_with_row(in(40), in.elements(40)); }),
      sequence_case("LargeDinMlp", random_lengths(700, 60),
                    [](Graph& g, const MakeInput& in) {
                      const Node s = in.elements(48);
                      const Node h = g.din_mlp(in(32), s, layers({64, 32}, Activation::kRelu));
                      return g.attention_pool(g.linear_without_bias(h, 1), s);
                    }),
      sequence_case("LargeDinMlpOfOddColumns", random_lengths(200, 30),
                    [](Graph& g, const MakeInput& in) {
                      return g.din_mlp(in(13), in.elements(21), layers({35}, Activation::kRelu));
                    }),
      attention("LargeSelfAttention", random_lengths(60, 100), 128, 2),
      attention("LargeSelfAttentionOfShortRows", random_lengths(600, 3), 64, 8),
      attention("LargeSelfAttentionOfOddColumns", random_lengths(60, 40), 99, 1),
      attention("LargeSelfAttentionOfWideHeads", random_lengths(20, 50), 256, 1),
      attention("LargeSelfAttentionOfTheWidestHeads", random_lengths(10, 40), 512, 1, 0.1f),
      attention("LargeSelfAttentionOfLongRows", {700, 0, 33, 1025}, 64, 2, 0.2f),
      sequence_case("LargeLayersOfElements", random_lengths(500, 60),
                    [](Graph& g, const MakeInput& in) {
                      const Node x = g.concat({g.repeat(in(16), in.sequence()), in.elements(31)});
                      return g.segment_mean(
                          g.mlp(x, layers({32, 20}, Activation::kTanh, MlpOptions::Norm::kBatch)));
                    }),
  };
}

}  // namespace emblem
