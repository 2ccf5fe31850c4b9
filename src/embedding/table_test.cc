#include "embedding/table.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "embedding/tables_test.h"

namespace emblem {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TableSettings dynamic_settings(Eviction eviction = Eviction::kNone, int64_t capacity = 0) {
  return {.name = "items",
          .dim = 2,
          .kind = TableKind::kDynamic,
          .capacity = capacity,
          .eviction = eviction,
          .initializer = {Initializer::Kind::kUniform, 1.0f, 2.0f}};
}

class TableTest : public TablesTest {
 protected:
  std::vector<float> lookup(Table& table, std::vector<int64_t> keys, Phase phase) {
    std::vector<float> out(keys.size() * table.dim());
    table.lookup_rows(context_, keys, phase,
                      {out.data(), static_cast<int64_t>(keys.size()), table.dim()});
    return out;
  }
  void train(Table& table, std::vector<int64_t> keys) {
    lookup(table, std::move(keys), Phase::kTrain);
  }
};
EMBLEM_TEST_ON_EVERY_DEVICE(TableTest);

TEST_P(TableTest, AStaticTableHasAllItsRowsFromTheStart) {
  Table& table = make({.name = "t",
                       .dim = 3,
                       .capacity = 5,
                       .initializer = {Initializer::Kind::kNormal, 0, 1},
                       .seed = 8});
  EXPECT_EQ(table.size(), 5);
  const Initializer& draw = table.settings().initializer;
  EXPECT_THAT(lookup(table, {4, 0}, Phase::kEval),
              ElementsAre(draw(8, 4, 0), draw(8, 4, 1), draw(8, 4, 2), draw(8, 0, 0), draw(8, 0, 1),
                          draw(8, 0, 2)));
}

TEST_P(TableTest, AKeyOutsideAStaticTableIsRefused) {
  Table& table = make({.name = "users", .dim = 1, .capacity = 5});
  for (const int64_t key : {int64_t{-1}, int64_t{5}, INT64_MIN, INT64_MAX}) {
    EXPECT_THAT(
        [&] {
          lookup(table, {0, key}, Phase::kEval);
        },
        ThrowsMessage<Error>(HasSubstr(cat("table users: key ", key, " is outside [0, 5)"))));
  }
}

TEST_P(TableTest, TrainingMakesRowsAndEvaluationDoesNot) {
  TableSettings settings = dynamic_settings();
  settings.missing = {Initializer::Kind::kConstant, -3.0f, 0.0f};
  Table& table = make(settings);
  EXPECT_THAT(lookup(table, {7, -7}, Phase::kEval), Each(-3.0f));
  EXPECT_EQ(table.size(), 0);
  const auto trained = lookup(table, {7, -7, 7}, Phase::kTrain);
  EXPECT_THAT(trained, Each(testing::AllOf(testing::Ge(1.0f), testing::Lt(2.0f))));
  EXPECT_EQ(table.size(), 2);
  EXPECT_EQ(lookup(table, {7, -7, 7}, Phase::kEval), trained);
}

TEST_P(TableTest, ARowsFirstValueDoesNotDependOnTheOrderOfKeys) {
  Table &one = make(dynamic_settings()), &other = make(dynamic_settings());
  train(one, {1, 2, 3});
  train(other, {3});
  train(other, {2, 1});
  EXPECT_EQ(lookup(one, {1, 2, 3}, Phase::kEval), lookup(other, {1, 2, 3}, Phase::kEval));
}

TEST_P(TableTest, AFullTableWithoutEvictionSaysSo) {
  Table& table = make(dynamic_settings(Eviction::kNone, 3));
  train(table, {1, 2, 3});
  train(table, {3, 2, 1});
  EXPECT_THAT([&] { train(table, {4}); },
              ThrowsMessage<Error>(HasSubstr("table items is full: it has 3 of 3 rows")));
}

TEST_P(TableTest, ABatchWithMoreKeysThanTheCapacitySaysSo) {
  Table& table = make(dynamic_settings(Eviction::kLru, 3));
  train(table, {1});
  EXPECT_THAT(
      [&] {
        train(table, {1, 2, 3, 4});
      },
      ThrowsMessage<Error>(testing::AllOf(HasSubstr("a batch has"), HasSubstr("the capacity"))));
}

TEST_P(TableTest, LruEvictsTheKeyThatWasTouchedLeastRecently) {
  Table& table = make(dynamic_settings(Eviction::kLru, 3));
  train(table, {1, 2, 3});
  train(table, {1});
  train(table, {4});
  EXPECT_THAT(keys_of(table), ElementsAre(1, 3, 4));
  lookup(table, {3}, Phase::kEval);  // does not count
  train(table, {5});
  EXPECT_THAT(keys_of(table), ElementsAre(1, 4, 5));
}

TEST_P(TableTest, LfuEvictsTheKeyThatOccurredLeastOften) {
  Table& table = make(dynamic_settings(Eviction::kLfu, 3));
  train(table, {1, 2, 2, 3, 3});
  train(table, {1, 1});
  train(table, {4});
  EXPECT_THAT(keys_of(table), ElementsAre(1, 3, 4));  // 2 and 3 tie: the smaller is evicted
  EXPECT_EQ(table.score(1), 3);
}

TEST_P(TableTest, StepEvictsTheSmallestKeyOfTheOldestStep) {
  Table& table = make(dynamic_settings(Eviction::kStep, 4));
  train(table, {9, 8});
  train(table, {-5, 6});
  train(table, {7});
  EXPECT_THAT(keys_of(table), ElementsAre(-5, 6, 7, 9));
  EXPECT_EQ(table.score(7), 3);
}

TEST_P(TableTest, CustomScoresDecideWhoStays) {
  Table& table = make(dynamic_settings(Eviction::kCustom, 3));
  table.set_next_score(10);
  train(table, {1, 2, 3});
  table.set_score(std::vector<int64_t>{2, 77}, -1);
  table.set_next_score(5);
  train(table, {4});
  EXPECT_THAT(keys_of(table), ElementsAre(1, 3, 4));
  EXPECT_EQ(table.score(4), 5);
  EXPECT_EQ(table.score(2), std::nullopt);
}

TEST_P(TableTest, EvictionSparesTheRowsOfTheBatch) {
  Table& table = make(dynamic_settings(Eviction::kLru, 3));
  train(table, {1, 2, 3});
  train(table, {1, 4});  // 1 is the oldest, but in use
  EXPECT_THAT(keys_of(table), ElementsAre(1, 3, 4));
}

TEST_P(TableTest, ALargeTableEvictsATwentiethAtOnce) {
  Table& table = make(dynamic_settings(Eviction::kLru, 1000));
  for (int64_t key = 0; key < 1000; ++key) train(table, {key});
  train(table, {5000});
  EXPECT_EQ(table.size(), 951);
  EXPECT_FALSE(table.contains(49));
  EXPECT_TRUE(table.contains(50));
}

TEST_P(TableTest, AKeyIsAdmittedAtItsThresholdAndReadsAsItsInitialRowBefore) {
  TableSettings settings = dynamic_settings(Eviction::kLfu);
  settings.admission_threshold = 3;
  Table& table = make(settings);
  const auto first = lookup(table, {1}, Phase::kTrain);
  train(table, {1, 2});
  EXPECT_EQ(table.size(), 0);
  EXPECT_THAT(table.export_admission(), ElementsAre(KeyCount{1, 2}, KeyCount{2, 1}));
  EXPECT_EQ(lookup(table, {1}, Phase::kTrain), first);
  EXPECT_THAT(keys_of(table), ElementsAre(1));
  EXPECT_EQ(table.score(1), 3);
  train(table, {3, 3, 3});  // all at once
  EXPECT_THAT(keys_of(table), ElementsAre(1, 3));
  EXPECT_THAT(lookup(table, {2}, Phase::kEval), Each(0.0f));
}

TEST_P(TableTest, AdmissionForgetsTheLeastCountedKeysWhenThereAreTooMany) {
  TableSettings settings = dynamic_settings();
  settings.admission_threshold = 10;
  settings.admission_capacity = 2;
  Table& table = make(settings);
  train(table, {5, 5, 6, 7, 7, 7});
  EXPECT_THAT(table.export_admission(), ElementsAre(KeyCount{5, 2}, KeyCount{7, 3}));
  train(table, {4, 4});  // ties with 5: the smaller key is evicted
  EXPECT_THAT(table.export_admission(), ElementsAre(KeyCount{5, 2}, KeyCount{7, 3}));
}

TEST_P(TableTest, AnErasedKeyStartsAnew) {
  Table& table = make(dynamic_settings());
  const auto first = lookup(table, {1, 2}, Phase::kTrain);
  table.import_rows(context_, {std::vector<int64_t>{1}, std::vector<float>{9, 9}});
  EXPECT_THAT(lookup(table, {1}, Phase::kEval), ElementsAre(9, 9));
  EXPECT_EQ(table.erase(std::vector<int64_t>{1, 1, 3}), 1);
  EXPECT_FALSE(table.contains(1));
  EXPECT_EQ(lookup(table, {1, 2}, Phase::kTrain), first);
}

TEST_P(TableTest, ImportOverwritesAndTheLastOfEqualKeysStays) {
  TableSettings settings = dynamic_settings(Eviction::kCustom);
  settings.rule = AdaGrad{};
  settings.initial_accumulator = 0.5f;
  Table& table = make(settings);
  table.import_rows(context_, {std::vector<int64_t>{5, 6, 5},
                               std::vector<float>{1, 2, 3, 4, 5, 6},
                               {},
                               std::vector<int64_t>{7, 8, 9}});
  std::vector<float> weights(2), state(2);
  ASSERT_TRUE(table.read(5, weights, state));
  EXPECT_THAT(weights, ElementsAre(5, 6));
  EXPECT_THAT(state, ElementsAre(0.5, 0.5));
  EXPECT_EQ(table.score(5), 9);
  EXPECT_FALSE(table.read(1, weights));
}

TEST_P(TableTest, ImportRefusesWhatDoesNotFit) {
  Table& table = make(dynamic_settings(Eviction::kLru, 1));
  const auto import = [&](std::vector<int64_t> keys, std::vector<float> weights,
                          std::vector<int64_t> scores) {
    return [=, this, &table] { table.import_rows(context_, {keys, weights, {}, scores}); };
  };
  EXPECT_THAT(import({1}, {1}, {}),
              ThrowsMessage<Error>(HasSubstr("1 keys of dimension 2 need 2 weights, not 1")));
  EXPECT_THAT(import({1}, {1, 2}, {3, 4}), ThrowsMessage<Error>(HasSubstr("need 1 scores, not 2")));
  EXPECT_THAT(import({1, 2}, {1, 2, 3, 4}, {}),
              ThrowsMessage<Error>(HasSubstr("more than its capacity of 1 keys")));
  EXPECT_THAT(import({1, 2}, {1, 2, 3, 4}, {5, INT64_MIN}),
              ThrowsMessage<Error>(HasSubstr("of key 2 is not a score")));
  EXPECT_EQ(table.size(), 0);
  import({1, 1, 1}, {1, 2, 3, 4, 5, 6}, {})();
  EXPECT_EQ(table.size(), 1);
}

// More than a GPU writes at once.
TEST_P(TableTest, AnImportThatDoesNotFitChangesNothing) {
  constexpr int64_t kCapacity = 70000;
  Table& table = make(dynamic_settings(Eviction::kLru, kCapacity));
  std::vector<int64_t> keys(kCapacity + 1);
  std::iota(keys.begin(), keys.end(), 0);
  const std::vector<float> weights(keys.size() * 2, 1.0f);
  EXPECT_THAT(
      [&] {
        table.import_rows(context_, {keys, weights});
      },
      ThrowsMessage<Error>(HasSubstr("more than its capacity of 70000 keys")));
  EXPECT_EQ(table.size(), 0);
  keys.back() = 5;
  table.import_rows(context_, {keys, weights});
  EXPECT_EQ(table.size(), kCapacity);
  table.import_rows(context_, {keys, weights});  // the same keys need no room
  TableSettings fixed = dynamic_settings();
  fixed.kind = TableKind::kStatic;
  fixed.capacity = 10;
  Table& rows = make(fixed);
  const auto before = lookup(rows, {1, 2}, Phase::kEval);
  EXPECT_THAT(
      [&] {
        rows.import_rows(context_, {std::vector<int64_t>{1, 2, 10}, std::vector<float>(6, 9.0f)});
      },
      ThrowsMessage<Error>(HasSubstr("key 10 is outside [0, 10)")));
  EXPECT_EQ(lookup(rows, {1, 2}, Phase::kEval), before);
}

TEST_P(TableTest, ClearLeavesATableAsNew) {
  for (const TableKind kind : {TableKind::kStatic, TableKind::kDynamic}) {
    TableSettings settings = dynamic_settings();
    settings.kind = kind;
    settings.capacity = 10;
    Table& table = make(settings);
    const auto first = lookup(table, {1, 2}, Phase::kTrain);
    table.import_rows(context_, {std::vector<int64_t>{1}, std::vector<float>{9, 9}});
    table.clear();
    EXPECT_EQ(table.size(), kind == TableKind::kStatic ? 10 : 0);
    EXPECT_EQ(lookup(table, {1, 2}, Phase::kTrain), first);
  }
}

TEST_P(TableTest, ContradictorySettingsAreRefused) {
  const auto making = [&](auto change) {
    TableSettings settings{.name = "bad", .dim = 4, .capacity = 10};
    change(settings);
    return [=, this] { make(settings); };
  };
  EXPECT_THAT(making([](auto& s) { s.dim = 0; }),
              ThrowsMessage<Error>(HasSubstr("table bad: the dimension is 0")));
  EXPECT_THAT(making([](auto& s) { s.capacity = 0; }),
              ThrowsMessage<Error>(HasSubstr("needs a number of rows")));
  EXPECT_THAT(making([](auto& s) { s.capacity = -1; }),
              ThrowsMessage<Error>(HasSubstr("capacity -1 is not in [0,")));
  EXPECT_THAT(making([](auto& s) { s.eviction = Eviction::kLru; }),
              ThrowsMessage<Error>(HasSubstr("neither eviction nor admission")));
  EXPECT_THAT([&] { make(dynamic_settings(Eviction::kLru)).set_next_score(1); },
              ThrowsMessage<Error>(HasSubstr("only with custom eviction")));
}

TEST_P(TableTest, ExportsWhatTrainingChangedSinceAVersion) {
  for (const TableKind kind : {TableKind::kStatic, TableKind::kDynamic}) {
    TableSettings settings = dynamic_settings();
    settings.kind = kind;
    settings.capacity = kind == TableKind::kStatic ? 50 : 0;
    Table& table = make(settings);
    TestLookup lookup = over({{&table}});
    lookup.forward({{{1, 2, 3}}}, 3);
    lookup.backward({1, 1, 1, 1, 1, 1});
    const int64_t copied = table.version();
    EXPECT_THAT(keys_of(table, copied), testing::IsEmpty());
    lookup.forward({{{3, 9, 3}}}, 3);
    lookup.backward({1, 1, 1, 1, 1, 1});
    EXPECT_THAT(keys_of(table, copied), ElementsAre(3, 9));
    lookup.forward({{{1}}}, 1, Phase::kEval);
    table.import_rows(context_, {std::vector<int64_t>{7}, std::vector<float>{1, 2}});
    EXPECT_THAT(keys_of(table, copied), ElementsAre(3, 7, 9));
    EXPECT_THAT(keys_of(table, copied + 1), ElementsAre(7));
  }
}

TEST_P(TableTest, EveryKeyIsLegal) {
  Table& table = make(dynamic_settings());
  const std::vector<int64_t> keys = {0, -1, INT64_MIN, INT64_MAX, 1, INT64_MIN + 1, 0xffffffff};
  const auto values = lookup(table, keys, Phase::kTrain);
  EXPECT_EQ(table.size(), 7);
  EXPECT_EQ(lookup(table, keys, Phase::kEval), values);
  EXPECT_EQ(table.erase(std::vector<int64_t>{-1, 0}), 2);
  EXPECT_FALSE(table.contains(0));
  EXPECT_TRUE(table.contains(INT64_MIN));
}

TEST_P(TableTest, CountsTheMemoryItHolds) {
  Table& table = make({.name = "t", .dim = 16, .kind = TableKind::kDynamic, .rule = Adam{}});
  std::vector<int64_t> keys(100000);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<int64_t>(i);
  train(table, keys);
  EXPECT_GT(table.bytes(), 100000 * 16 * 4 * 3);
  EXPECT_LT(table.bytes(), 2 * 100000 * 16 * 4 * 3);
}

// More than are sorted at once, so that they are exported in ranges of keys.
TEST_P(TableTest, ExportsMillionsOfRowsWithTheirKeysAscending) {
  constexpr int64_t kRows = 2500000;
  for (const TableKind kind : {TableKind::kDynamic, TableKind::kStatic}) {
    Table& table = make({.name = "t", .dim = 1, .kind = kind, .capacity = kRows});
    std::vector<int64_t> keys(kRows);
    std::vector<float> weights(kRows);
    for (int64_t i = 0; i < kRows; ++i) {
      keys[i] = kind == TableKind::kStatic ? i : i * 7919 % kRows * 3 - kRows;
      weights[i] = static_cast<float>(keys[i] % 1000);
    }
    if (kind == TableKind::kDynamic)
      keys[5] = INT64_MIN, keys[6] = INT64_MAX, weights[5] = weights[6] = 0;
    const int64_t half = kRows / 2;
    table.import_rows(context_, {std::span(keys).first(half), std::span(weights).first(half)});
    const int64_t copied = table.version();
    table.import_rows(context_, {std::span(keys).subspan(half), std::span(weights).subspan(half)});
    for (const std::optional<int64_t> since : {std::optional<int64_t>(), std::optional(copied)}) {
      std::vector<int64_t> expected(keys.begin() + (since ? half : 0), keys.end());
      std::sort(expected.begin(), expected.end());
      std::vector<int64_t> found;
      int64_t wrong = 0;
      table.export_rows(
          context_, 300000,
          [&](const RowBatch& batch) {
            EXPECT_LE(batch.keys.size(), 300000u);
            for (size_t i = 0; i < batch.keys.size(); ++i) {
              const int64_t key = batch.keys[i];
              const bool extreme = key == INT64_MIN || key == INT64_MAX;
              wrong += batch.weights[i] != (extreme ? 0.0f : static_cast<float>(key % 1000));
            }
            found.insert(found.end(), batch.keys.begin(), batch.keys.end());
          },
          since);
      EXPECT_TRUE(found == expected) << found.size() << " keys of " << expected.size();
      EXPECT_EQ(wrong, 0);
    }
  }
}

// A model may have hundreds of small tables, and ranks hold small parts of them.
TEST_P(TableTest, ATableWithACapacityHasMemoryForItsRowsAndNoMore) {
  for (const TableKind kind : {TableKind::kStatic, TableKind::kDynamic}) {
    const TableSettings settings{.name = "t", .dim = 16, .kind = kind, .rule = Adam{}};
    const auto bytes_of = [&](int64_t rows) {
      TableSettings limited = settings;
      limited.capacity = limited.initial_capacity = rows;
      return make(limited).bytes();
    };
    const int64_t few = bytes_of(1000), many = bytes_of(8000);
    EXPECT_LT(few, 2 * 1000 * 16 * 4 * 3);
    if (context_.device == Device::kCpu) continue;  // it takes memory when keys come
    EXPECT_GE(few, 1000 * 16 * 4 * 3);
    EXPECT_NEAR(many, 8 * few, 0.01 * many);
  }
}

TEST_P(TableTest, CountsTheMarksOfChangedRowsToo) {
  Table& table = make({.name = "t", .dim = 1, .capacity = 100000});
  EXPECT_GE(table.bytes(), 100000 * (4 + 4)) << "a weight and a mark per row";
}

}  // namespace
}  // namespace emblem
