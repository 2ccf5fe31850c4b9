#include "embedding/local_lookup.h"

#include <gmock/gmock.h>

#include <map>

#include "core/thread_pool.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;
using testing::ThrowsMessage;

// Keys, offsets and weights of a feature, and the views of them.
struct Bags {
  std::vector<int64_t> keys;
  std::vector<int32_t> offsets;
  std::vector<float> weights;
  FeatureKeys view() const {
    FeatureKeys result;
    result.keys = {keys.data(), static_cast<int64_t>(keys.size())};
    result.offsets = {offsets.data(), static_cast<int64_t>(offsets.size())};
    result.weights = {weights.data(), static_cast<int64_t>(weights.size())};
    return result;
  }
};

class LocalLookupTest : public testing::Test {
 protected:
  std::vector<float> forward(LocalLookup& lookup, const std::vector<Bags>& bags, int64_t rows,
                             Phase phase = Phase::kTrain) {
    std::vector<Bags>& kept = phase == Phase::kTrain ? train_bags_ : eval_bags_;  // until backward
    kept = bags;
    std::vector<FeatureKeys> features;
    for (const Bags& of : kept) features.push_back(of.view());
    std::vector<float> out(rows * lookup.width(), -99.0f);
    lookup.forward(context_, features, phase, {out.data(), rows, lookup.width()});
    return out;
  }
  void backward(LocalLookup& lookup, const std::vector<float>& gradients, float scale = 1.0f,
                int64_t step = 1) {
    const auto rows = static_cast<int64_t>(gradients.size()) / lookup.width();
    lookup.backward(context_, {gradients.data(), rows, lookup.width()}, scale, 0.1f, step);
  }
  // A static table whose row r is {r, 10 r, ...}.
  Table ramp(TableSettings settings) {
    Table table(context_, settings);
    for (int64_t key = 0; key < settings.capacity; ++key) {
      std::vector<float> weights(settings.dim);
      for (int64_t d = 0; d < settings.dim; ++d)
        weights[d] = static_cast<float>(key * (d == 0 ? 1 : 10));
      table.import_rows(context_, {{&key, 1}, weights});
    }
    return table;
  }
  std::vector<float> row(const Table& table, int64_t key) {
    std::vector<float> weights(table.dim());
    EXPECT_TRUE(table.read(key, weights));
    return weights;
  }
  Context context_;
  std::vector<Bags> train_bags_, eval_bags_;
};

TEST_F(LocalLookupTest, PutsTheVectorOfEachFeatureAtItsColumn) {
  Table a = ramp({.name = "a", .dim = 1, .capacity = 9}),
        b = ramp({.name = "b", .dim = 2, .capacity = 9});
  LocalLookup lookup({{&b}, {&a}, {&b, Pooling::kMean}});
  EXPECT_EQ(lookup.width(), 5);
  EXPECT_THAT(forward(lookup, {{{1, 2}}, {{3, 4}}, {{5, 6, 7}, {0, 2, 3}}}, 2),
              ElementsAre(1, 10, 3, 5.5, 55, 2, 20, 4, 7, 70));
}

TEST_F(LocalLookupTest, SumsTheGradientsOfAKeyOverAllFeaturesBeforeOneUpdate) {
  // AdaGrad sees the difference: one step with 1 + 2 + 4, not three.
  Table table = ramp({.name = "t", .dim = 1, .capacity = 9, .rule = AdaGrad{.epsilon = 0.0f}});
  LocalLookup lookup({{&table}, {&table}});
  forward(lookup, {{{5, 3}}, {{5, 5}}}, 2);
  backward(lookup, {1, 2, 8, 4});
  EXPECT_THAT(row(table, 5), Pointwise(FloatNear(1e-6), {5.0f - 0.1f}));
  EXPECT_THAT(row(table, 3), Pointwise(FloatNear(1e-6), {3.0f - 0.1f}));
  std::vector<float> weight(1), state(1);
  table.read(5, weight, state);
  EXPECT_EQ(state[0], 49.0f);
}

TEST_F(LocalLookupTest, MeanAndWeightsScaleTheGradients) {
  Table table = ramp({.name = "t", .dim = 1, .capacity = 9});
  LocalLookup lookup({{&table, Pooling::kMean}, {&table}});
  const std::vector<Bags> bags = {{{1, 2, 3, 4}, {0, 2, 2, 4}, {3, 1, 0.5, 0.5}},
                                  {{5, 6, 7}, {}, {2, 0, -1}}};
  forward(lookup, bags, 3);
  backward(lookup, {10, 10, 10, 10, 10, 10},
           2.0f);  // steps of 0.1 * 2 * 10 = 2 times the coefficient
  EXPECT_THAT(row(table, 1), Pointwise(FloatNear(1e-6), {1 - 1.5f}));
  EXPECT_THAT(row(table, 2), Pointwise(FloatNear(1e-6), {2 - 0.5f}));
  EXPECT_THAT(row(table, 3), Pointwise(FloatNear(1e-6), {3 - 1.0f}));
  EXPECT_THAT(row(table, 5), Pointwise(FloatNear(1e-6), {5 - 4.0f}));
  EXPECT_THAT(row(table, 6), Pointwise(FloatNear(1e-6), {6.0f}));
  EXPECT_THAT(row(table, 7), Pointwise(FloatNear(1e-6), {7 + 2.0f}));
}

TEST_F(LocalLookupTest, L2PullsTheRowsOfTheBatchOrAllRows) {
  for (const bool all : {false, true}) {
    for (const TableKind kind : {TableKind::kStatic, TableKind::kDynamic}) {
      Table table(context_, {.name = "t",
                             .dim = 1,
                             .kind = kind,
                             .capacity = 4,
                             .initializer = {Initializer::Kind::kConstant, 2.0f, 0.0f},
                             .l2 = 0.5f,
                             .l2_on_all_rows = all});
      LocalLookup lookup({{&table}});
      forward(lookup, {{{0, 1, 2, 3}}}, 4);  // makes the rows of a dynamic table
      if (kind == TableKind::kDynamic) table.erase(std::vector<int64_t>{2});
      forward(lookup, {{{1, 1}}}, 2);
      backward(lookup, {1, 2});
      EXPECT_THAT(row(table, 1), Pointwise(FloatNear(1e-6), {2 - 0.1f * (3 + 1)}));
      EXPECT_THAT(row(table, 3), Pointwise(FloatNear(1e-6), {all ? 2 - 0.1f : 2.0f}));
    }
  }
}

TEST_F(LocalLookupTest, AFrozenTableIsNeverUpdated) {
  Table frozen = ramp({.name = "f",
                       .dim = 1,
                       .capacity = 9,
                       .l2 = 1.0f,
                       .l2_on_all_rows = true,
                       .trainable = false});
  Table trained = ramp({.name = "t", .dim = 1, .capacity = 9});
  LocalLookup lookup({{&frozen}, {&trained}});
  forward(lookup, {{{5}}, {{5}}}, 1);
  const std::vector<float> gradients = {3, 4};
  EXPECT_EQ(lookup.squared_gradient_norm(context_, {gradients.data(), 1, 2}), 16.0);
  backward(lookup, gradients);
  EXPECT_THAT(row(frozen, 5), ElementsAre(5));
  EXPECT_THAT(row(trained, 5), Pointwise(FloatNear(1e-6), {4.6f}));
}

TEST_F(LocalLookupTest, TheGradientNormCountsAKeyOnce) {
  Table table = ramp({.name = "t", .dim = 2, .capacity = 9});
  LocalLookup lookup({{&table}, {&table}});
  forward(lookup, {{{1, 2}}, {{1, 1}}}, 2);
  const std::vector<float> gradients = {1, 2, 3, 4, 5, 6, 7, 8};
  const double key1 = 11 * 11 + 14 * 14, key2 = 5 * 5 + 6 * 6;
  EXPECT_DOUBLE_EQ(lookup.squared_gradient_norm(context_, {gradients.data(), 2, 4}), key1 + key2);
}

TEST_F(LocalLookupTest, EvaluationBetweenForwardAndBackwardChangesNothing) {
  Table table(context_, {.name = "t",
                         .dim = 1,
                         .kind = TableKind::kDynamic,
                         .initializer = {Initializer::Kind::kConstant, 1.0f, 0.0f}});
  LocalLookup lookup({{&table}});
  const std::vector<Bags> training = {{{7}}};
  forward(lookup, training, 1);
  EXPECT_THAT(forward(lookup, {{{7, 8, 9}}}, 3, Phase::kEval), ElementsAre(1, 0, 0));
  backward(lookup, {5});
  EXPECT_EQ(table.size(), 1);
  EXPECT_THAT(row(table, 7), ElementsAre(0.5));
}

TEST_F(LocalLookupTest, GradientsOfKeysThatWaitForAdmissionAreDropped) {
  Table table(context_, {.name = "t",
                         .dim = 1,
                         .kind = TableKind::kDynamic,
                         .admission_threshold = 2,
                         .initializer = {Initializer::Kind::kConstant, 1.0f, 0.0f}});
  LocalLookup lookup({{&table}});
  const std::vector<Bags> bags = {{{4, 4, 5}}};
  EXPECT_THAT(forward(lookup, bags, 3), ElementsAre(1, 1, 1));
  backward(lookup, {1, 2, 100});
  EXPECT_EQ(table.size(), 1);
  EXPECT_THAT(row(table, 4), Pointwise(FloatNear(1e-6), {0.7f}));
  EXPECT_THAT(forward(lookup, {{{5}}}, 1), ElementsAre(1));
}

TEST_F(LocalLookupTest, TheFirstBadKeyIsNamed) {
  Table a = ramp({.name = "a", .dim = 1, .capacity = 9}),
        b = ramp({.name = "b", .dim = 1, .capacity = 3});
  LocalLookup lookup({{&a}, {&b}});
  std::vector<int64_t> keys(1000, 2);
  keys[900] = 17;
  keys[901] = -1;
  const auto call = [&] { forward(lookup, {{std::vector<int64_t>(1000, 8)}, {keys}}, 1000); };
  EXPECT_THAT(call, ThrowsMessage<Error>(HasSubstr("table b: key 17 is outside [0, 3)")));
  EXPECT_THAT([&] { backward(lookup, std::vector<float>(2000)); },
              ThrowsMessage<Error>(HasSubstr("without a training forward pass")));
}

TEST_F(LocalLookupTest, InputOfTheWrongShapeIsRefused) {
  Table table = ramp({.name = "t", .dim = 1, .capacity = 9});
  LocalLookup lookup({{&table}});
  const auto call = [&](Bags bags, int64_t rows) {
    return [=, this, &lookup] { forward(lookup, {bags}, rows); };
  };
  EXPECT_THAT(call({{1, 2}}, 3),
              ThrowsMessage<Error>(HasSubstr("has 2 keys for 3 bags and no offsets")));
  EXPECT_THAT(call({{1}, {0, 1}}, 2),
              ThrowsMessage<Error>(HasSubstr("has 2 offsets, but 2 bags need 3")));
  EXPECT_THAT(call({{1, 2}, {0, 2, 1}}, 2),
              ThrowsMessage<Error>(HasSubstr("do not rise from 0 to its 2 keys")));
  EXPECT_THAT(call({{1, 2}, {}, {1}}, 2),
              ThrowsMessage<Error>(HasSubstr("has 1 weights for 2 keys")));
  EXPECT_THAT([&] { forward(lookup, {}, 1); },
              ThrowsMessage<Error>(HasSubstr("keys of 0 features were given")));
  EXPECT_THAT([&] { backward(lookup, {1}); },
              ThrowsMessage<Error>(HasSubstr("without a training forward")));
  EXPECT_THAT([] { LocalLookup lookup({{nullptr}}); },
              ThrowsMessage<Error>(HasSubstr("feature 0 has no table")));
}

TEST_F(LocalLookupTest, AnEmptyBatchIsNoError) {
  Table table = ramp({.name = "t", .dim = 1, .capacity = 9});
  LocalLookup lookup({{&table}});
  forward(lookup, {{{}, {0}}}, 0);
  backward(lookup, {});
}

// A model's worth of features over static, dynamic and shared tables; large enough for several
// parts.
std::vector<float> train_with_threads(int threads, int64_t batch) {
  ThreadPool pool(threads);
  const Context context{.threads = &pool};
  Table users(context, {.name = "users", .dim = 8, .capacity = 5000, .rule = AdaGrad{}});
  Table items(context, {.name = "items",
                        .dim = 4,
                        .dtype = DType::kBf16,
                        .kind = TableKind::kDynamic,
                        .capacity = 40000,
                        .eviction = Eviction::kLru,
                        .rule = Adam{}});
  Table words(context, {.name = "words",
                        .dim = 3,
                        .kind = TableKind::kDynamic,
                        .admission_threshold = 2,
                        .rule = RowWiseAdaGrad{},
                        .l2 = 0.01f,
                        .l2_on_all_rows = true});
  LocalLookup lookup({{&users}, {&items}, {&words, Pooling::kMean}, {&items}, {&users}});
  std::vector<float> result, out(batch * lookup.width());
  for (int step = 1; step <= 4; ++step) {
    Random random{.seed = 2, .stream = static_cast<uint64_t>(step)};
    std::vector<Bags> bags(5);
    std::vector<FeatureKeys> features;
    for (int f = 0; f < 5; ++f) {
      const int64_t keys = f == 2 ? batch * 3 : batch;
      for (int64_t i = 0; i < keys; ++i) {
        bags[f].keys.push_back(static_cast<int64_t>(random.below(f % 4 == 0 ? 5000 : 60000)));
        if (f == 2) bags[f].weights.push_back(random.uniform());
      }
      for (int64_t b = 0; f == 2 && b <= batch; ++b)
        bags[f].offsets.push_back(static_cast<int32_t>(b * 3));
      features.push_back(bags[f].view());
    }
    lookup.forward(context, features, Phase::kTrain, {out.data(), batch, lookup.width()});
    for (float& value : out) value += random.normal();
    result.push_back(static_cast<float>(
        lookup.squared_gradient_norm(context, {out.data(), batch, lookup.width()})));
    lookup.backward(context, {out.data(), batch, lookup.width()}, 0.1f, 0.01f, step);
  }
  for (const Table* table : lookup.tables()) {
    table->export_rows(context, 1000, [&](const RowBatch& rows) {
      result.insert(result.end(), rows.weights.begin(), rows.weights.end());
      result.insert(result.end(), rows.states.begin(), rows.states.end());
      result.insert(result.end(), rows.scores.begin(), rows.scores.end());
    });
  }
  return result;
}

TEST(LocalLookup, GivesTheSameBitsWithAnyNumberOfThreads) {
  const auto one = train_with_threads(1, 9000);
  EXPECT_EQ(train_with_threads(2, 9000), one);
  EXPECT_EQ(train_with_threads(4, 9000), one);
}

}  // namespace
}  // namespace emblem
