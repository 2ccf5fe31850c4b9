#include "embedding/lookup.h"

#include <gmock/gmock.h>

#include <thread>

#include "core/math/random.h"
#include "embedding/tables_test.h"

namespace emblem {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;
using testing::ThrowsMessage;

class LookupTest : public TablesTest {};
EMBLEM_TEST_ON_EVERY_DEVICE(LookupTest);

TEST_P(LookupTest, PutsTheVectorOfEachFeatureAtItsColumn) {
  Table &a = ramp({.name = "a", .dim = 1, .capacity = 9}),
        &b = ramp({.name = "b", .dim = 2, .capacity = 9});
  TestLookup lookup = over({{&b}, {&a}, {&b, Pooling::kMean}});
  EXPECT_EQ(lookup.width(), 5);
  EXPECT_THAT(lookup.forward({{{1, 2}}, {{3, 4}}, {{5, 6, 7}, {0, 2, 3}}}, 2),
              ElementsAre(1, 10, 3, 5.5, 55, 2, 20, 4, 7, 70));
}

// If a column is not a multiple of four floats, other kernels serve the table, at all its columns.
TEST_P(LookupTest, ATableMayStandAtAnyColumn) {
  Table &a = ramp({.name = "a", .dim = 4, .capacity = 9}),
        &b = ramp({.name = "b", .dim = 1, .capacity = 9}),
        &c = ramp({.name = "c", .dim = 3, .capacity = 9});
  for (const auto& features : {std::vector<LookupFeature>{{&a}, {&b}, {&a}, {&c}},
                               std::vector<LookupFeature>{{&b}, {&a}, {&c}, {&a}}}) {
    TestLookup lookup = over(features);
    const std::vector<Bags> bags = {{{1}}, {{2}}, {{3}}, {{4}}};
    const auto out = lookup.forward(bags, 1);
    int64_t column = 0;
    for (size_t f = 0; f < features.size(); ++f) {
      const auto expected = row(*features[f].table, static_cast<int64_t>(f) + 1);
      for (size_t d = 0; d < expected.size(); ++d) EXPECT_EQ(out[column + d], expected[d]);
      column += features[f].table->dim();
    }
    lookup.backward(std::vector<float>(12, 0.0f));
  }
}

TEST_P(LookupTest, SumsTheGradientsOfAKeyOverAllFeaturesBeforeOneUpdate) {
  // AdaGrad sees the difference: one step with 1 + 2 + 4, not three.
  Table& table = ramp({.name = "t", .dim = 1, .capacity = 9, .rule = AdaGrad{.epsilon = 0.0f}});
  TestLookup lookup = over({{&table}, {&table}});
  lookup.forward({{{5, 3}}, {{5, 5}}}, 2);
  lookup.backward({1, 2, 8, 4});
  EXPECT_THAT(row(table, 5), Pointwise(FloatNear(1e-6), {5.0f - 0.1f}));
  EXPECT_THAT(row(table, 3), Pointwise(FloatNear(1e-6), {3.0f - 0.1f}));
  std::vector<float> weight(1), state(1);
  table.read(5, weight, state);
  EXPECT_EQ(state[0], 49.0f);
}

TEST_P(LookupTest, MeanAndWeightsScaleTheGradients) {
  Table& table = ramp({.name = "t", .dim = 1, .capacity = 9});
  TestLookup lookup = over({{&table, Pooling::kMean}, {&table}});
  const std::vector<Bags> bags = {{{1, 2, 3, 4}, {0, 2, 2, 4}, {3, 1, 0.5, 0.5}},
                                  {{5, 6, 7}, {}, {2, 0, -1}}};
  lookup.forward(bags, 3);
  lookup.backward({10, 10, 10, 10, 10, 10},
                  2.0f);  // steps of 0.1 * 2 * 10 = 2 times the coefficient
  EXPECT_THAT(row(table, 1), Pointwise(FloatNear(1e-6), {1 - 1.5f}));
  EXPECT_THAT(row(table, 2), Pointwise(FloatNear(1e-6), {2 - 0.5f}));
  EXPECT_THAT(row(table, 3), Pointwise(FloatNear(1e-6), {3 - 1.0f}));
  EXPECT_THAT(row(table, 5), Pointwise(FloatNear(1e-6), {5 - 4.0f}));
  EXPECT_THAT(row(table, 6), Pointwise(FloatNear(1e-6), {6.0f}));
  EXPECT_THAT(row(table, 7), Pointwise(FloatNear(1e-6), {7 + 2.0f}));
}

TEST_P(LookupTest, L2PullsTheRowsOfTheBatchOrAllRows) {
  for (const bool all : {false, true}) {
    for (const TableKind kind : {TableKind::kStatic, TableKind::kDynamic}) {
      Table& table = make({.name = "t",
                           .dim = 1,
                           .kind = kind,
                           .capacity = 4,
                           .initializer = {Initializer::Kind::kConstant, 2.0f, 0.0f},
                           .l2 = 0.5f,
                           .l2_on_all_rows = all});
      TestLookup lookup = over({{&table}});
      lookup.forward({{{0, 1, 2, 3}}}, 4);  // makes the rows of a dynamic table
      if (kind == TableKind::kDynamic) table.erase(std::vector<int64_t>{2});
      lookup.forward({{{1, 1}}}, 2);
      lookup.backward({1, 2});
      EXPECT_THAT(row(table, 1), Pointwise(FloatNear(1e-6), {2 - 0.1f * (3 + 1)}));
      EXPECT_THAT(row(table, 3), Pointwise(FloatNear(1e-6), {all ? 2 - 0.1f : 2.0f}));
    }
  }
}

TEST_P(LookupTest, AFrozenTableIsNeverUpdated) {
  Table& frozen = ramp({.name = "f",
                        .dim = 1,
                        .capacity = 9,
                        .l2 = 1.0f,
                        .l2_on_all_rows = true,
                        .trainable = false});
  Table& trained = ramp({.name = "t", .dim = 1, .capacity = 9});
  TestLookup lookup = over({{&frozen}, {&trained}});
  lookup.forward({{{5}}, {{5}}}, 1);
  const std::vector<float> gradients = {3, 4};
  EXPECT_EQ(lookup.squared_gradient_norm(gradients), 16.0);
  lookup.backward(gradients);
  EXPECT_THAT(row(frozen, 5), ElementsAre(5));
  EXPECT_THAT(row(trained, 5), Pointwise(FloatNear(1e-6), {4.6f}));
}

TEST_P(LookupTest, TheGradientNormCountsAKeyOnce) {
  Table& table = ramp({.name = "t", .dim = 2, .capacity = 9});
  TestLookup lookup = over({{&table}, {&table}});
  lookup.forward({{{1, 2}}, {{1, 1}}}, 2);
  const std::vector<float> gradients = {1, 2, 3, 4, 5, 6, 7, 8};
  const double key1 = 11 * 11 + 14 * 14, key2 = 5 * 5 + 6 * 6;
  EXPECT_DOUBLE_EQ(lookup.squared_gradient_norm(gradients), key1 + key2);
}

TEST_P(LookupTest, EvaluationBetweenForwardAndBackwardChangesNothing) {
  Table& table = make({.name = "t",
                       .dim = 1,
                       .kind = TableKind::kDynamic,
                       .initializer = {Initializer::Kind::kConstant, 1.0f, 0.0f}});
  TestLookup lookup = over({{&table}});
  const std::vector<Bags> training = {{{7}}};
  lookup.forward(training, 1);
  EXPECT_THAT(lookup.forward({{{7, 8, 9}}}, 3, Phase::kEval), ElementsAre(1, 0, 0));
  lookup.forward({{std::vector<int64_t>(20000, 9)}}, 20000, Phase::kEval);  // a larger batch
  lookup.backward({5});
  EXPECT_EQ(table.size(), 1);
  EXPECT_THAT(row(table, 7), ElementsAre(0.5));
}

TEST_P(LookupTest, AValueIsUpdatedAlikeInRowsOfEveryWidth) {
  for (const Rule& rule : {Rule(Sgd{}), Rule(Momentum{}), Rule(AdaGrad{}), Rule(Adam{}),
                           Rule(RmsProp{}), Rule(AdaDelta{}), Rule(Ftrl{})}) {
    std::vector<std::vector<float>> columns;
    for (const int64_t dim : {1, 2, 3, 4, 8, 16, 31, 32, 128, 200}) {
      Table& table = make({.name = "t",
                           .dim = dim,
                           .capacity = 64,
                           .initializer = {Initializer::Kind::kConstant, 0.3f, 0.0f},
                           .rule = rule,
                           .l2 = 0.01f});
      TestLookup lookup = over({{&table}}, Sums::kDeterministic);
      Random random{.seed = 3};
      std::vector<int64_t> keys;
      for (int64_t i = 0; i < 64; ++i) keys.push_back(static_cast<int64_t>(random.below(64)));
      for (int64_t step = 1; step <= 20; ++step) {
        lookup.forward({{keys}}, 64);
        std::vector<float> gradients;
        for (int64_t i = 0; i < 64; ++i)
          gradients.insert(gradients.end(), static_cast<size_t>(dim), random.normal());
        lookup.backward(gradients, 1.0f, step);
      }
      std::vector<float>& column = columns.emplace_back();
      for (int64_t key = 0; key < 64; ++key) {
        const std::vector<float> weights = row(table, key);
        EXPECT_THAT(weights, Each(weights[0]));
        column.push_back(weights[0]);
      }
    }
    for (const auto& column : columns) EXPECT_EQ(column, columns[0]) << name_of(rule);
  }
}

// Threads of one process, on a device: each has its own number of tables.
TEST_P(LookupTest, ThreadsUpdateTheirOwnTablesAtOnce) {
  std::vector<TestLookup> lookups;
  for (const int64_t tables : {1, 60}) {
    std::vector<LookupFeature> features;
    for (int64_t t = 0; t < tables; ++t)
      features.push_back({&ramp({.name = cat("t", t), .dim = 4, .capacity = 9})});
    lookups.push_back(over(features));
  }
  std::vector<std::jthread> threads;
  for (TestLookup& lookup : lookups) {
    threads.emplace_back([&lookup] {
      const std::vector<Bags> bags(static_cast<size_t>(lookup.width() / 4), {.keys = {1, 2}});
      const std::vector<float> gradients(static_cast<size_t>(2 * lookup.width()), 1.0f);
      for (int step = 1; step <= 50; ++step) {
        EXPECT_NO_THROW(lookup.forward(bags, 2));
        EXPECT_NO_THROW(lookup.backward(gradients, 1.0f, step));
      }
    });
  }
}

TEST_P(LookupTest, GradientsOfKeysThatWaitForAdmissionAreDropped) {
  Table& table = make({.name = "t",
                       .dim = 1,
                       .kind = TableKind::kDynamic,
                       .admission_threshold = 2,
                       .initializer = {Initializer::Kind::kConstant, 1.0f, 0.0f}});
  TestLookup lookup = over({{&table}});
  const std::vector<Bags> bags = {{{4, 4, 5}}};
  EXPECT_THAT(lookup.forward(bags, 3), ElementsAre(1, 1, 1));
  lookup.backward({1, 2, 100});
  EXPECT_EQ(table.size(), 1);
  EXPECT_THAT(row(table, 4), Pointwise(FloatNear(1e-6), {0.7f}));
  EXPECT_THAT(lookup.forward({{{5}}}, 1), ElementsAre(1));
}

TEST_P(LookupTest, TheFirstBadKeyIsNamed) {
  Table &a = ramp({.name = "a", .dim = 1, .capacity = 9}),
        &b = ramp({.name = "b", .dim = 1, .capacity = 3});
  TestLookup lookup = over({{&a}, {&b}});
  std::vector<int64_t> keys(1000, 2);
  keys[900] = 17;
  keys[901] = -1;
  const auto call = [&] { lookup.forward({{std::vector<int64_t>(1000, 8)}, {keys}}, 1000); };
  if (GetParam() == Device::kCpu) {
    EXPECT_THAT(call, ThrowsMessage<Error>(HasSubstr("table b: key 17 is outside [0, 3)")));
  } else {  // one of the bad keys, after the pass
    EXPECT_THAT(call, ThrowsMessage<Error>(HasSubstr("is outside [0, 3)")));
    return;
  }
  EXPECT_THAT([&] { lookup.backward(std::vector<float>(2000)); },
              ThrowsMessage<Error>(HasSubstr("without a training forward pass")));
}

TEST_P(LookupTest, InputOfTheWrongShapeIsRefused) {
  Table& table = ramp({.name = "t", .dim = 1, .capacity = 9});
  TestLookup lookup = over({{&table}});
  const auto call = [&](Bags bags, int64_t rows) {
    return [=, &lookup] { lookup.forward({bags}, rows); };
  };
  EXPECT_THAT(call({{1, 2}}, 3),
              ThrowsMessage<Error>(HasSubstr("has 2 keys for 3 bags and no offsets")));
  EXPECT_THAT(call({{1}, {0, 1}}, 2),
              ThrowsMessage<Error>(HasSubstr("has 2 offsets, but 2 bags need 3")));
  if (GetParam() == Device::kCpu) {  // a GPU trusts the offsets
    EXPECT_THAT(call({{1, 2}, {0, 2, 1}}, 2),
                ThrowsMessage<Error>(HasSubstr("do not rise from 0 to its 2 keys")));
  }
  EXPECT_THAT(call({{1, 2}, {}, {1}}, 2),
              ThrowsMessage<Error>(HasSubstr("has 1 weights for 2 keys")));
  EXPECT_THAT([&] { lookup.forward({}, 1); },
              ThrowsMessage<Error>(HasSubstr("keys of 0 features were given")));
  EXPECT_THAT([&] { lookup.backward({1}); },
              ThrowsMessage<Error>(HasSubstr("without a training forward")));
  EXPECT_THAT([&] { over({{nullptr}}); },
              ThrowsMessage<Error>(HasSubstr("feature 0 has no table")));
}

TEST_P(LookupTest, AnEmptyBatchIsNoError) {
  Table& table = ramp({.name = "t", .dim = 1, .capacity = 9});
  TestLookup lookup = over({{&table}});
  lookup.forward({{{}, {0}}}, 0);
  lookup.backward({});
}

// A model's worth of features over static, dynamic and shared tables; large enough for several
// parts.
std::vector<float> train_a_model(const Context& context, int64_t batch, Sums sums = Sums::kFast) {
  const auto users =
      make_table(context, {.name = "users", .dim = 8, .capacity = 5000, .rule = AdaGrad{}});
  const auto items = make_table(context, {.name = "items",
                                          .dim = 4,
                                          .dtype = DType::kBf16,
                                          .kind = TableKind::kDynamic,
                                          .capacity = 40000,
                                          .eviction = Eviction::kLru,
                                          .rule = Adam{}});
  const auto words = make_table(context, {.name = "words",
                                          .dim = 3,
                                          .kind = TableKind::kDynamic,
                                          .admission_threshold = 2,
                                          .rule = RowWiseAdaGrad{},
                                          .l2 = 0.01f,
                                          .l2_on_all_rows = true});
  TestLookup lookup(
      context,
      {{users.get()}, {items.get()}, {words.get(), Pooling::kMean}, {items.get()}, {users.get()}},
      sums);
  std::vector<float> result;
  for (int step = 1; step <= 4; ++step) {
    Random random{.seed = 2, .stream = static_cast<uint64_t>(step)};
    std::vector<Bags> bags(5);
    for (int f = 0; f < 5; ++f) {
      const int64_t keys = f == 2 ? batch * 3 : batch;
      for (int64_t i = 0; i < keys; ++i) {
        bags[f].keys.push_back(static_cast<int64_t>(random.below(f % 4 == 0 ? 5000 : 60000)));
        if (f == 2) bags[f].weights.push_back(random.uniform());
      }
      for (int64_t b = 0; f == 2 && b <= batch; ++b)
        bags[f].offsets.push_back(static_cast<int32_t>(b * 3));
    }
    std::vector<float> out = lookup.forward(bags, batch);
    for (float& value : out) value += random.normal();
    result.push_back(static_cast<float>(lookup.squared_gradient_norm(out)));
    lookup.backward(out, 0.1f, step, 0.01f);
  }
  for (const Table* table : {users.get(), items.get(), words.get()}) {
    table->export_rows(context, 1000, [&](const RowBatch& rows) {
      result.insert(result.end(), rows.weights.begin(), rows.weights.end());
      result.insert(result.end(), rows.states.begin(), rows.states.end());
      result.insert(result.end(), rows.scores.begin(), rows.scores.end());
    });
  }
  return result;
}

TEST(HostLookup, GivesTheSameBitsWithAnyNumberOfThreads) {
  const auto with_threads = [](int threads) {
    ThreadPool pool(threads);
    return train_a_model({.threads = &pool}, 9000);
  };
  const auto one = with_threads(1);
  EXPECT_EQ(with_threads(2), one);
  EXPECT_EQ(with_threads(4), one);
}

TEST_P(LookupTest, TrainsAModelAsTheCpuDoes) {
  const auto expected = train_a_model({}, 9000);
  for (const Sums sums : {Sums::kFast, Sums::kDeterministic}) {
    const auto found = train_a_model(context_, 9000, sums);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(found[i], expected[i], 1e-2 * (std::abs(expected[i]) + 0.1)) << i;
    }
  }
}

TEST_P(LookupTest, ACacheHoldsTheRowsOfTheLastPasses) {
  if (GetParam() == Device::kCpu) GTEST_SKIP() << "on a CPU all rows are where they are";
  Table& table = make({.name = "t",
                       .dim = 4,
                       .kind = TableKind::kDynamic,
                       .capacity = 1000,
                       .initializer = {Initializer::Kind::kConstant, 1.0f, 0.0f},
                       .placement = Placement::kCache,
                       .device_bytes = 100 * 16});
  TestLookup lookup = over({{&table}});
  const auto pass = [&](int64_t first, int64_t count) {
    Bags bags;
    for (int64_t key = first; key < first + count; ++key) bags.keys.push_back(key);
    const Table::CacheUse before = table.cache_use();
    lookup.forward({bags}, count);
    lookup.backward(std::vector<float>(count * 4, 1.0f));
    EXPECT_EQ(table.cache_use().rows - before.rows, count);
    return table.cache_use().missed - before.missed;
  };
  EXPECT_EQ(pass(0, 60), 60);
  EXPECT_EQ(pass(0, 60), 0);
  EXPECT_EQ(pass(60, 40), 40);  // the cache is full
  EXPECT_EQ(pass(100, 30), 30);
  EXPECT_EQ(pass(60, 40), 0);  // half of the older rows have left
  EXPECT_EQ(pass(100, 30), 0);
  EXPECT_EQ(pass(0, 60), 30);
  EXPECT_EQ(pass(200, 150), 150);  // more than fit: the rest is used where it is
  EXPECT_THAT(row(table, 0), Pointwise(FloatNear(1e-5), {0.7f, 0.7f, 0.7f, 0.7f}));  // three steps
  EXPECT_THAT(row(table, 349), Pointwise(FloatNear(1e-5), {0.9f, 0.9f, 0.9f, 0.9f}));
}

// Half of the keys are one key, so that sums span many tiles and chunks of work.
TEST_P(LookupTest, GivesTheSameBitsAtEveryRunIfToldTo) {
  std::vector<std::vector<float>> results;
  std::vector<double> norms[3];
  for (int run = 0; run < 3; ++run) {
    Table& table = make({.name = "t", .dim = 32, .kind = TableKind::kDynamic, .rule = Adam{}});
    TestLookup lookup = over({{&table}, {&table}}, Sums::kDeterministic);
    for (int step = 1; step <= 3; ++step) {
      Random random{.seed = 12, .stream = static_cast<uint64_t>(step)};
      std::vector<Bags> bags(2);
      for (Bags& of : bags) {
        for (int i = 0; i < 5000; ++i)
          of.keys.push_back(random.below(2) ? 42 : static_cast<int64_t>(random.below(3000)));
      }
      std::vector<float> gradients(5000 * 64);
      lookup.forward(bags, 5000);
      for (float& g : gradients) g = random.normal();
      norms[run].push_back(lookup.squared_gradient_norm(gradients));
      lookup.backward(gradients, 1.0f, step);
    }
    auto& result = results.emplace_back();
    table.export_rows(context_, 1000, [&](const RowBatch& rows) {
      result.insert(result.end(), rows.weights.begin(), rows.weights.end());
      result.insert(result.end(), rows.states.begin(), rows.states.end());
    });
  }
  EXPECT_EQ(results[1], results[0]);
  EXPECT_EQ(results[2], results[0]);
  EXPECT_EQ(norms[1], norms[0]);
  EXPECT_EQ(norms[2], norms[0]);
}

// Half of the keys are one key, as in real data: its occurrences span many tiles of work.
TEST_P(LookupTest, AHotKeyGetsTheSumOfAllItsGradients) {
  for (const int64_t dim : {3, 4, 20, 128, 256}) {
    Table& table = make({.name = "t", .dim = dim, .kind = TableKind::kDynamic});
    TestLookup lookup = over({{&table}}, dim == 20 ? Sums::kDeterministic : Sums::kFast);
    const int64_t rows = 20001;
    Bags bags;
    std::vector<float> gradients(rows * dim);
    std::vector<double> sum(dim);
    Random random{.seed = 9};
    for (int64_t i = 0; i < rows; ++i) {
      const bool hot = random.below(2) == 0;
      bags.keys.push_back(hot ? 42 : static_cast<int64_t>(random.below(100000)) + 100);
      for (int64_t d = 0; d < dim; ++d) {
        gradients[i * dim + d] = random.uniform();
        if (hot) sum[d] += gradients[i * dim + d];
      }
    }
    const auto first = lookup.forward({bags}, rows);
    const auto at = std::find(bags.keys.begin(), bags.keys.end(), 42) - bags.keys.begin();
    for (int repeat = 0; repeat < 2; ++repeat) {
      lookup.backward(gradients);
      const auto after = row(table, 42);
      for (int64_t d = 0; d < dim; ++d) {
        EXPECT_NEAR(after[d], first[at * dim + d] - 0.1 * sum[d] * (repeat + 1),
                    0.02 * (repeat + 1));
      }
      lookup.forward({bags}, rows);
    }
  }
}

}  // namespace
}  // namespace emblem
