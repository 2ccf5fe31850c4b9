// Capsules of jagged batches against the routing of padded ones, in double precision, with masks as
// formulas of tensors have them.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "core/device/device_test.h"
#include "core/text/text.h"
#include "nn/capsules.h"
#include "nn/matching.h"

namespace emblem {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class CapsulesTest : public DeviceTest {};
EMBLEM_TEST_ON_EVERY_DEVICE(CapsulesTest);

constexpr int64_t kLowDim = 5;

// [elements][columns], zeros beyond the last element of a row.
using PaddedRow = std::vector<std::vector<double>>;

double norm_of(const std::vector<double>& v) {
  double square = 0.0;
  for (const double x : v) square += x * x;
  return std::sqrt(square);
}

std::vector<double> squashed_vector(std::vector<double> v, double power) {
  const double norm = std::max(norm_of(v), 1e-7);
  const double factor = std::pow(norm * norm / (1.0 + norm * norm), power) / norm;
  for (double& x : v) x *= factor;
  return v;
}

// What routing a row gives: its last shares, and sums of elements by them.
struct PaddedRouting {
  std::vector<std::vector<double>> shares;  // [elements][capsules]

  PaddedRouting(const PaddedRow& x, int32_t length, const CapsuleOptions& of) {
    const double most = of.capsules,
                 wanted =
                     of.count == CapsuleOptions::Count::kFixed
                         ? most
                         : std::max(1.0, std::min(most, std::log2(static_cast<double>(length))));
    for (size_t t = 0; t < x.size(); ++t) {
      std::vector<double>& logits = shares.emplace_back();
      for (int k = 0; k < of.capsules; ++k)
        logits.push_back(of.first_logit(static_cast<int32_t>(t), k));
    }
    for (int iteration = 0; iteration < of.iterations; ++iteration) {
      for (size_t t = 0; t < x.size(); ++t) {
        double sum = 0.0;
        for (int k = 0; k < of.capsules; ++k) {
          const double logit = k < wanted ? shares[t][k] : -std::numeric_limits<double>::infinity();
          sum += shares[t][k] = std::exp(of.scale * logit);
        }
        for (double& share : shares[t]) share *= static_cast<int32_t>(t) < length ? 1.0 / sum : 0.0;
      }
      if (iteration + 1 == of.iterations) break;
      const PaddedRow v = sums(x);
      for (size_t t = 0; t < x.size(); ++t)
        for (int k = 0; k < of.capsules; ++k)
          for (size_t j = 0; j < x[t].size(); ++j)
            shares[t][k] += v[k][j] * x[t][j] / std::max(norm_of(x[t]), 1e-12);
    }
  }

  PaddedRow sums(const PaddedRow& x) const {
    PaddedRow v(shares.at(0).size(), std::vector<double>(x.at(0).size(), 0.0));
    for (size_t t = 0; t < x.size(); ++t)
      for (size_t k = 0; k < v.size(); ++k)
        for (size_t j = 0; j < v[k].size(); ++j) v[k][j] += shares[t][k] * x[t][j];
    return v;
  }
};

// A batch of rows through the op, with a loss that weights what comes out at random.
struct CapsuleRun {
  std::vector<int32_t> lengths, offsets = {0};
  std::vector<float> values, weights, capsules, gradient;
  int64_t wide = 0;

  CapsuleRun(const Context& context, std::vector<int32_t> of_rows, const CapsuleOptions& options)
      : lengths(std::move(of_rows)), wide(options.capsules * kLowDim) {
    for (const int32_t length : lengths) offsets.push_back(offsets.back() + length);
    const auto rows = std::ssize(lengths);
    for (int64_t i = 0; i < offsets.back() * kLowDim; ++i)
      values.push_back(random_normal(3, 1, static_cast<uint64_t>(i)));
    for (int64_t i = 0; i < rows * wide; ++i)
      weights.push_back(random_normal(3, 2, static_cast<uint64_t>(i)));
    Graph graph(1);
    const Space space = graph.add_sequence("history");
    const Node x = graph.trained_input("x", kLowDim, space), weight = graph.input("weights", wide),
               label = graph.input("label", 1);
    const Node out = emblem::capsules(graph, x, options);
    minimize_mean(graph, graph.row_sum(graph.multiply(out, weight)), {.labels = label});
    graph.prepare(context, rows);
    graph.set_rows(rows);
    const auto there = Buffer<int32_t>::from(context, offsets);
    graph.set_elements(context, space, there.view(), offsets.back());
    context.synchronize();
    to_device(context, values, graph.value(x));
    to_device(context, weights, graph.value(weight));
    to_device(context, std::vector<float>(static_cast<size_t>(rows), 1.0f), graph.value(label));
    graph.forward(context, Phase::kTrain, 0);
    capsules = to_host(context, graph.value(out));
    graph.backward(context);
    gradient = to_host(context, graph.gradient(x));
  }

  // The elements that are read, or one of zeros.
  PaddedRow padded(size_t row, const CapsuleOptions& options) const {
    const int32_t longest = options.most_elements > 0 ? static_cast<int32_t>(options.most_elements)
                                                      : std::max(1, lengths[row]);
    PaddedRow x(static_cast<size_t>(longest), std::vector<double>(kLowDim, 0.0));
    for (int32_t t = 0; t < std::min(lengths[row], longest); ++t)
      for (int64_t j = 0; j < kLowDim; ++j) x[t][j] = values[(offsets[row] + t) * kLowDim + j];
    return x;
  }
};

std::vector<std::pair<std::string, CapsuleOptions>> capsule_cases() {
  using Count = CapsuleOptions::Count;
  return {
      {"once", {.capsules = 4, .iterations = 1}},
      {"as by default", {}},
      {"of sharp logits", {.capsules = 8, .iterations = 3, .scale = 20.0f, .squash_power = 0.2f}},
      {"of soft logits", {.capsules = 3, .iterations = 5, .scale = 0.5f, .squash_power = 0.5f}},
      {"of a fixed count", {.capsules = 6, .count = Count::kFixed, .iterations = 2, .scale = 2.0f}},
      {"cut", {.capsules = 5, .iterations = 3, .most_elements = 4, .scale = 2.0f}},
      {"from zeros", {.capsules = 2, .scale = 1.0f, .start = CapsuleOptions::Start::kZeros}},
      {"of one", {.capsules = 1}},
      {"of small logits", {.capsules = 7, .scale = 3.0f, .deviation = 0.1f}},
  };
}

const std::vector<int32_t> kHistoryLengths = {0, 1, 2, 3, 4, 5, 8, 9, 33, 0, 17};

TEST_P(CapsulesTest, AreThoseOfRoutedPaddedRows) {
  for (const auto& [name, options] : capsule_cases()) {
    const CapsuleRun run(context_, kHistoryLengths, options);
    for (size_t row = 0; row < kHistoryLengths.size(); ++row) {
      const PaddedRow x = run.padded(row, options);
      const PaddedRouting routing(x, kHistoryLengths[row], options);
      const PaddedRow v = routing.sums(x);
      for (int k = 0; k < options.capsules; ++k) {
        const std::vector<double> expected = squashed_vector(v[k], options.squash_power);
        for (int64_t j = 0; j < kLowDim; ++j)
          ASSERT_NEAR(run.capsules[row * run.wide + k * kLowDim + j], expected[j], 1e-3)
              << name << ", row " << row << ", capsule " << k;
      }
    }
  }
}

// Shares are constants.
TEST_P(CapsulesTest, HaveGradientsOfTheLastSums) {
  for (const auto& [name, options] : capsule_cases()) {
    const CapsuleRun run(context_, kHistoryLengths, options);
    for (size_t row = 0; row < kHistoryLengths.size(); ++row) {
      PaddedRow x = run.padded(row, options);
      const PaddedRouting routing(x, kHistoryLengths[row], options);
      const auto loss = [&] {
        double sum = 0.0;
        const PaddedRow v = routing.sums(x);
        for (int k = 0; k < options.capsules; ++k) {
          const std::vector<double> h = squashed_vector(v[k], options.squash_power);
          for (int64_t j = 0; j < kLowDim; ++j)
            sum += h[j] * run.weights[row * run.wide + k * kLowDim + j];
        }
        return sum / static_cast<double>(kHistoryLengths.size());
      };
      for (int32_t t = 0; t < kHistoryLengths[row]; ++t) {
        for (int64_t j = 0; j < kLowDim; ++j) {
          double expected = 0.0;
          if (t < std::ssize(x)) {
            const double at = x[t][j], distance = 1e-5;
            x[t][j] = at + distance;
            const double above = loss();
            x[t][j] = at - distance;
            expected = (above - loss()) / (2 * distance);
            x[t][j] = at;
          }
          ASSERT_NEAR(run.gradient[(run.offsets[row] + t) * kLowDim + j], expected,
                      1e-3 * (0.1 + std::abs(expected)))
              << name << ", row " << row << ", element " << t;
        }
      }
    }
  }
}

TEST(CapsuleOptions, CountCapsulesByTheLogarithmOfTheLength) {
  const auto counts = [](const CapsuleOptions& options) {
    std::vector<int> all;
    for (const int32_t length : {0, 1, 2, 3, 4, 5, 8, 9, 16, 17, 1000, 2147483647})
      all.push_back(options.capsules_of(length));
    return all;
  };
  EXPECT_THAT(counts({.capsules = 5}), ElementsAre(1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 5));
  EXPECT_EQ(CapsuleOptions{.capsules = 64}.capsules_of(2147483647), 31);
  EXPECT_THAT(counts({.capsules = 2, .count = CapsuleOptions::Count::kFixed}), Each(2));
}

TEST_P(CapsulesTest, AreMaskedByTheLengthOfARow) {
  const CapsuleOptions options{.capsules = 3};
  Graph graph(1);
  const Space space = graph.add_sequence("history");
  const Node x = graph.trained_input("x", 2, space);
  const Node mask = capsule_mask(graph, x, options, 0.5f, -2.0f);
  graph.mark_output(mask);
  graph.prepare(context_, 4);
  graph.set_rows(3);
  const auto offsets = Buffer<int32_t>::from(context_, std::vector<int32_t>{0, 0, 3, 12});
  graph.set_elements(context_, space, offsets.view(), 12);
  to_device(context_, std::vector<float>(24, 1.0f), graph.value(x));
  graph.forward(context_, Phase::kEval, 0);
  EXPECT_THAT(to_host(context_, graph.value(mask)),
              ElementsAre(0.5f, -2, -2, 0.5f, 0.5f, -2, 0.5f, 0.5f, 0.5f));
}

// From batch to batch, with more rows and fewer.
TEST_P(CapsulesTest, FixedSequencesHaveAsManyElementsInEveryRow) {
  Graph graph(1);
  const Space space = add_fixed_sequence(graph, "thirds", 3);
  const Node x = graph.trained_input("x", 6), weight = graph.trained_input("weight", 1);
  const Node third = split_vectors(graph, x, space);
  const Node sums = graph.segment_sum(graph.mix(graph.repeat(weight, space), {third}));
  const Node joined = join_vectors(graph, graph.scale(third, 2.0f));
  for (const Node out : {sums, joined}) graph.mark_output(out);
  graph.prepare(context_, 40);
  for (const int64_t rows : {5, 40, 1, 0, 37}) {
    graph.set_rows(rows);
    std::vector<float> values, factors, expected_sums, expected;
    for (int64_t i = 0; i < 6 * rows; ++i) values.push_back(static_cast<float>(i % 11));
    for (int64_t r = 0; r < rows; ++r) {
      const float* of = values.data() + 6 * r;
      factors.push_back(static_cast<float>(r % 3));
      for (const int j : {0, 1})
        expected_sums.push_back(factors.back() * (of[j] + of[j + 2] + of[j + 4]));
    }
    for (const float value : values) expected.push_back(2 * value);
    to_device(context_, values, graph.value(x));
    to_device(context_, factors, graph.value(weight));
    graph.forward(context_, Phase::kEval, 0);
    EXPECT_EQ(to_host(context_, graph.value(sums)), expected_sums) << rows;
    EXPECT_EQ(to_host(context_, graph.value(joined)), expected) << rows;
  }
}

TEST(FixedSequences, AreNotFed) {
  const Context context;
  Graph graph(1);
  const Space space = add_fixed_sequence(graph, "thirds", 3);
  const Node x = graph.trained_input("x", 6);
  graph.mark_output(join_vectors(graph, split_vectors(graph, x, space)));
  graph.prepare(context, 4);
  graph.set_rows(1);
  const auto offsets = Buffer<int32_t>::from(context, std::vector<int32_t>{0, 3});
  EXPECT_THAT([&] { graph.set_elements(context, space, offsets.view(), 3); },
              ThrowsMessage<Error>(HasSubstr("whose rows have 3 elements each")));
  // And they count as what each row has.
  EXPECT_EQ(graph.values_per_row(), 6 + 3 * 2 + 6);
}

TEST(Capsules, OfOtherNodesAreRefused) {
  Graph graph(1);
  const Node of_batch = graph.input("x", 7);
  const Space history = graph.add_sequence("history"),
              halves = add_fixed_sequence(graph, "halves", 2);
  const Node of_history = graph.input("y", 4, history);
  const auto refused = [](auto&& build, const std::string& text) {
    EXPECT_THAT(build, ThrowsMessage<Error>(HasSubstr(text)));
  };
  refused([&] { capsules(graph, of_batch, {}); }, "expected a node of a sequence");
  refused([&] { capsules(graph, of_history, {.capsules = 65}); }, "65 capsules; expected 1 to 64");
  refused([&] { capsules(graph, of_history, {.iterations = 0}); }, "0 iterations");
  refused([&] { split_vectors(graph, of_batch, halves); }, "do not make 2 vectors");
  refused([&] { split_vectors(graph, of_batch, history); }, "any number of elements");
  refused([&] { join_vectors(graph, of_history); }, "any number of elements");
  refused([&] { add_fixed_sequence(graph, "none", 0); }, "expected at least 1");
}

}  // namespace
}  // namespace emblem
