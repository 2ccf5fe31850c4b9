// How users rank candidates, against sums over all of them in double precision.
#include <gmock/gmock.h>

#include <cmath>

#include "core/device/device_test.h"
#include "core/math/random.h"
#include "nn/matching.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class MatchingTest : public DeviceTest {};
EMBLEM_TEST_ON_EVERY_DEVICE(MatchingTest);

constexpr int64_t kDim = 7;
constexpr float kTemperature = 0.5f;

// Small integers, so that scores are exact and some of them equal.
std::vector<float> small_integers(int64_t count, uint64_t stream) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(random_bits(5, stream, i) % 3) - 1.0f;
  return values;
}

struct Matched {
  std::vector<float> ranks;  // [rows, kRankColumns]
  double loss = 0.0;
};

struct ItemInputs {
  std::vector<float> vectors;
  // Of each item; empty: not given.
  std::vector<int64_t> ids = {};
  std::vector<float> corrections = {};
  std::vector<int64_t> candidate_of = {};
};

// Items of the batch where there are as many as rows; else of a sequence.
Matched match(const Context& context, const std::vector<float>& users, const ItemInputs& items,
              const std::vector<float>& weights, Candidates candidates) {
  const auto rows = std::ssize(users) / kDim, there = std::ssize(items.vectors) / kDim;
  Graph graph(1);
  const Space space = there == rows ? Space{} : graph.add_sequence("items");
  const Node user = graph.trained_input("users", kDim),
             item = graph.trained_input("items", kDim, space), labels = graph.input("labels", 1),
             weight = graph.input("weights", 1);
  CandidateOptions options{.candidates = candidates, .temperature = kTemperature};
  if (!items.ids.empty()) options.ids = id_input_of(graph, "ids", space);
  if (!items.corrections.empty()) options.corrections = graph.input("corrections", 1, space);
  if (!items.candidate_of.empty()) options.candidate_of = id_input_of(graph, "rows", space);
  const Node ranks = rank_candidates(graph, user, item, options);
  minimize_mean(graph, ranks, {.labels = labels, .weights = weight, .name = "softmax"});
  graph.prepare(context, rows);
  graph.set_rows(rows);
  if (!(space == Space{})) {
    std::vector<int32_t> offsets;
    for (int32_t r = 0; r < rows; ++r) offsets.push_back(r);
    offsets.push_back(static_cast<int32_t>(there));
    const auto on_device = Buffer<int32_t>::from(context, offsets);
    graph.set_elements(context, space, on_device.view(), there);
    context.synchronize();
  }
  to_device(context, users, graph.value(user));
  to_device(context, items.vectors, graph.value(item));
  to_device(context, weights, graph.value(weight));
  to_device(context, std::vector<float>(rows, 1.0f), graph.value(labels));
  if (options.ids.id >= 0) to_device(context, items.ids, graph.ids(options.ids));
  if (options.corrections.id >= 0)
    to_device(context, items.corrections, graph.value(options.corrections));
  if (options.candidate_of.id >= 0)
    to_device(context, items.candidate_of, graph.ids(options.candidate_of));
  graph.forward(context, Phase::kTrain, 0);
  const double loss = graph.loss(context);
  graph.backward(context);
  return {to_host(context, graph.value(ranks)), loss};
}

bool competes(const ItemInputs& items, int64_t row, int64_t item, int64_t rows,
              Candidates candidates) {
  if (item == row) return false;
  if (item < rows && candidates == Candidates::kNegatives) return false;
  if (!items.ids.empty() && items.ids[item] == items.ids[row]) return false;
  return items.candidate_of.empty() || items.candidate_of[item] < 0 ||
         items.candidate_of[item] == row;
}

std::vector<CandidateRank> expected_ranks(const std::vector<float>& users, const ItemInputs& items,
                                          Candidates candidates) {
  const auto rows = std::ssize(users) / kDim, there = std::ssize(items.vectors) / kDim;
  const auto score = [&](int64_t user, int64_t item) {
    double sum = 0.0;
    for (int64_t j = 0; j < kDim; ++j)
      sum += users[user * kDim + j] * items.vectors[item * kDim + j];
    return sum / kTemperature;
  };
  const auto corrected = [&](int64_t user, int64_t item) {
    return score(user, item) - (items.corrections.empty() ? 0.0 : items.corrections[item]);
  };
  std::vector<CandidateRank> ranks(rows);
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 1.0;
    for (int64_t i = 0; i < there; ++i) {
      if (!competes(items, r, i, rows, candidates)) continue;
      sum += std::exp(corrected(r, i) - corrected(r, r));
      ranks[r].better += score(r, i) > score(r, r) ? 1.0f : 0.0f;
      ranks[r].equal += score(r, i) == score(r, r) ? 1.0f : 0.0f;
    }
    ranks[r].loss = static_cast<float>(std::log(sum));
  }
  return ranks;
}

void expect_ranks(const Context& context, int64_t rows, const ItemInputs& items,
                  Candidates candidates) {
  const auto users = small_integers(rows * kDim, 1);
  std::vector<float> weights(rows);
  for (int64_t r = 0; r < rows; ++r) weights[r] = static_cast<float>(1 + r % 4);
  const Matched actual = match(context, users, items, weights, candidates);
  const auto expected = expected_ranks(users, items, candidates);
  double sum = 0.0, weight = 0.0;
  for (int64_t r = 0; r < rows; ++r) {
    const float* rank = actual.ranks.data() + r * kRankColumns;
    EXPECT_NEAR(rank[0], expected[r].loss, 1e-5 * (1.0 + expected[r].loss)) << r;
    EXPECT_EQ(rank[1], expected[r].better) << r;
    EXPECT_EQ(rank[2], expected[r].equal) << r;
    sum += weights[r] * expected[r].loss;
    weight += weights[r];
  }
  EXPECT_NEAR(actual.loss, sum / weight, 1e-5 * (1.0 + sum / weight));
}

TEST_P(MatchingTest, RanksAndLossesAreThoseOfASoftmaxOverTheCandidates) {
  for (const int64_t rows : {1, 5, 70}) {
    for (const int64_t negatives : {0, 3, 1300}) {
      for (const Candidates candidates : {Candidates::kAllItems, Candidates::kNegatives}) {
        if (negatives == 0 && candidates == Candidates::kNegatives) continue;
        SCOPED_TRACE(cat(rows, " rows, ", negatives, " negatives"));
        expect_ranks(context_, rows, {small_integers((rows + negatives) * kDim, 2)}, candidates);
      }
    }
  }
}

// The mask applies to losses and ranks, corrections to losses alone; hard negatives, of some rows
// none and of one more than a tile of scores, compete with their row.
TEST_P(MatchingTest, EqualItemsDoNotCompeteAndCorrectionsChangeTheLossAlone) {
  for (const int64_t rows : {1, 5, 70}) {
    for (const int64_t negatives : {0, 3, 1300}) {
      for (const int64_t hard : {0, 4, 2500}) {
        for (const Candidates candidates : {Candidates::kAllItems, Candidates::kNegatives}) {
          for (const int given : {1, 2, 4, 7}) {
            if (negatives + hard == 0 && candidates == Candidates::kNegatives) continue;
            SCOPED_TRACE(cat(rows, " rows, ", negatives, " negatives, ", hard, " hard, ", given));
            const int64_t there = rows + negatives + hard;
            ItemInputs items{small_integers(there * kDim, 2)};
            for (int64_t i = 0; i < there; ++i) {
              if (given & 1) items.ids.push_back(static_cast<int64_t>(random_bits(7, 3, i) % 13));
              if (given & 2) items.corrections.push_back(random_normal(7, 4, i));
              // Of the last row most of them.
              if (given & 4)
                items.candidate_of.push_back(
                    i < rows + negatives ? -1
                                         : std::min<int64_t>(rows - 1, 2 * (i - rows - negatives)));
            }
            expect_ranks(context_, rows, items, candidates);
          }
        }
      }
    }
  }
}

TEST_P(MatchingTest, ARowWithoutOtherCandidatesLosesNothing) {
  const auto users = small_integers(3 * kDim, 1), items = small_integers(3 * kDim, 2);
  const Matched actual = match(context_, users, {items}, {1, 1, 1}, Candidates::kNegatives);
  EXPECT_EQ(actual.loss, 0.0);
  EXPECT_EQ(actual.ranks, (std::vector<float>{0, 0, 1, 0, 0, 1, 0, 0, 1}));
}

TEST(Matching, FewerItemsThanRowsAreRefused) {
  const auto users = small_integers(3 * kDim, 1), items = small_integers(2 * kDim, 2);
  EXPECT_THAT(
      [&] {
        match(Context{}, users, {items}, {1, 1, 1}, Candidates::kNegatives);
      },
      ThrowsMessage<Error>(HasSubstr("there are 2 items for 3 rows")));
}

TEST(Matching, WhatDoesNotFitIsRefused) {
  Graph graph(1);
  const Space sequence = graph.add_sequence("s");
  const Node wide = graph.trained_input("wide", 4), narrow = graph.trained_input("narrow", 3),
             element = graph.trained_input("element", 4, sequence);
  const auto rank = [&](Node users, Node items, float temperature) {
    rank_candidates(graph, users, items, {.temperature = temperature});
  };
  EXPECT_THAT([&] { rank(wide, narrow, 1.0f); },
              ThrowsMessage<Error>(HasSubstr("'wide' has 4 columns and 'narrow' 3")));
  EXPECT_THAT([&] { rank(element, wide, 1.0f); },
              ThrowsMessage<Error>(HasSubstr("users are rows of the batch")));
  EXPECT_THAT([&] { rank(wide, wide, 0.0f); },
              ThrowsMessage<Error>(HasSubstr("the temperature is 0")));
  const Node ids = id_input_of(graph, "ids", sequence), numbers = graph.input("numbers", 1);
  EXPECT_THAT([&] { rank_candidates(graph, wide, wide, {.ids = ids}); },
              ThrowsMessage<Error>(HasSubstr("'ids' cannot be the ids")));
  EXPECT_THAT([&] { rank_candidates(graph, wide, element, {.corrections = numbers}); },
              ThrowsMessage<Error>(HasSubstr("'numbers' cannot be the corrections")));
  EXPECT_THAT([&] { rank_candidates(graph, wide, wide, {.candidate_of = numbers}); },
              ThrowsMessage<Error>(HasSubstr("'numbers' cannot be the rows of candidates")));
}

// Against sums of squares, and their slopes; no gradient reaches y.
TEST_P(MatchingTest, MimicryIsASumOrWhereRowsHaveWeightsTheirMean) {
  constexpr int64_t kRows = 5, kCols = 3;
  for (const bool is_weighted : {false, true}) {
    Graph graph(1);
    const Node x = graph.trained_input("x", kCols), y = graph.trained_input("y", kCols),
               label = graph.input("label", 1), weight = graph.input("weight", 1);
    Graph::Target target{.labels = label, .factor = 0.25f};
    if (is_weighted) target.weights = weight;
    mimicry_loss(graph, x, y, target);
    graph.prepare(context_, kRows + 2);
    graph.set_rows(kRows);
    std::vector<float> left, right, weights, expected;
    for (int64_t i = 0; i < kRows * kCols; ++i) {
      left.push_back(random_normal(1, 1, i));
      right.push_back(random_normal(1, 2, i));
    }
    double all = 0.0, sum = 0.0;
    for (int64_t r = 0; r < kRows; ++r) all += weights.emplace_back(0.5f + static_cast<float>(r));
    for (int64_t i = 0; i < kRows * kCols; ++i) {
      const double share = 0.25 * (is_weighted ? weights[i / kCols] / all : 1.0);
      const double difference = static_cast<double>(left[i]) - right[i];
      sum += share * difference * difference;
      expected.push_back(static_cast<float>(2 * share * difference));
    }
    to_device(context_, left, graph.value(x));
    to_device(context_, right, graph.value(y));
    to_device(context_, weights, graph.value(weight));
    to_device(context_, std::vector<float>(kRows, 1.0f), graph.value(label));
    graph.forward(context_, Phase::kTrain, 0);
    EXPECT_NEAR(graph.loss(context_), sum, 1e-5 * sum);
    graph.backward(context_);
    const std::vector<float> actual = to_host(context_, graph.gradient(x));
    for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-5);
    EXPECT_THAT(to_host(context_, graph.gradient(y)), testing::Each(0.0f));
    graph.forward(context_, Phase::kEval, 0);
    EXPECT_EQ(graph.loss(context_), 0.0);
  }
}

}  // namespace
}  // namespace emblem
