#include "emblem/table.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "api/trained_test.h"
#include "core/files/file.h"
#include "core/files/temp_folder_test.h"
#include "emblem/error.h"
#include "emblem/lookup.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

using Floats = std::vector<float>;
using Keys = std::vector<int64_t>;

// Rows of keys, as inference sees them.
Floats rows_of(api::Table& table, const Keys& keys) {
  Floats rows(keys.size() * static_cast<size_t>(table.options().dim));
  table.read(keys, Pass::kInference, rows);
  return rows;
}

struct AllRows {
  Keys keys, scores;
  Floats weights, states;
  int64_t updates = 0;
  bool operator==(const AllRows&) const = default;
};
AllRows all_rows(const api::Table& table) {
  AllRows all;
  table.each(
      [&](const TableRows& rows) {
        all.keys.insert(all.keys.end(), rows.keys.begin(), rows.keys.end());
        all.scores.insert(all.scores.end(), rows.scores.begin(), rows.scores.end());
        all.weights.insert(all.weights.end(), rows.weights.begin(), rows.weights.end());
        all.states.insert(all.states.end(), rows.states.begin(), rows.states.end());
      },
      7);
  all.updates = table.updates();
  return all;
}

// Steps [first, last) on keys that depend on the step alone.
void train(api::Table& table, int first, int last, int threads = 1) {
  api::Lookup lookup({{&table, "mean"}}, {.threads = threads});
  for (int step = first; step < last; ++step) {
    Keys keys;
    std::vector<int32_t> offsets = {0};
    Floats gradients;
    for (int row = 0; row < 200; ++row) {
      for (int i = 0; i <= row % 3; ++i) keys.push_back((step * 31 + row * row + i) % 997 - 40);
      offsets.push_back(static_cast<int32_t>(keys.size()));
      for (int64_t d = 0; d < table.options().dim; ++d)
        gradients.push_back(std::sin(static_cast<float>(step + row * 7 + d)));
    }
    Floats out(gradients.size());
    lookup.forward({{.keys = keys, .offsets = offsets}}, Pass::kTraining, out.data());
    lookup.backward(gradients.data());
  }
}

TableOptions adam() {
  return {.name = "users",
          .dim = 5,
          .optimizer = {"adam", {{"lr", "0.01"}}},
          .capacity = 400,
          .eviction = "lru",
          .admission_threshold = 2};
}

TEST(PublicTable, TrainingGivesKeysRowsAndInferenceDoesNot) {
  api::Table table({.dim = 2, .missing = "constant,val=9"});
  EXPECT_EQ(rows_of(table, {5, -1}), (Floats{9, 9, 9, 9}));
  EXPECT_EQ(table.size(), 0);
  Floats made(4);
  table.read(Keys{5, -1}, Pass::kTraining, made);
  EXPECT_EQ(table.size(), 2);
  EXPECT_EQ(rows_of(table, {5, -1}), made);
  for (const float value : made) EXPECT_LE(std::abs(value), 0.01f);
  EXPECT_TRUE(table.contains(-1));
  EXPECT_FALSE(table.contains(6));
  EXPECT_EQ(table.erase(Keys{5, 6}), 1);
  EXPECT_EQ(rows_of(table, {5}), (Floats{9, 9}));
  table.clear();
  EXPECT_EQ(table.size(), 0);
}

TEST(PublicTable, AnUpdateAddsTheGradientsOfAKeyOverAllFeatures) {
  api::Table table(
      {.dim = 2, .initializer = "constant,val=1", .optimizer = {"sgd", {{"lr", "0.5"}}}});
  api::Table other(
      {.dim = 1, .rows = 3, .initializer = "zeros", .optimizer = {"sgd", {{"lr", "0.5"}}}});
  api::Lookup lookup({{&table, "sum"}, {&other, "mean"}, {&table, "mean"}});
  ASSERT_EQ(lookup.width(), 5);
  const Keys first = {7, 8}, second = {2, 0, 2}, third = {7, 9, 7};
  const std::vector<int32_t> second_bags = {0, 2, 3}, third_bags = {0, 3, 3};
  const Floats weights = {2, 1, 1};
  Floats out(10);
  lookup.forward({{.keys = first},
                  {.keys = second, .offsets = second_bags},
                  {.keys = third, .offsets = third_bags, .weights = weights}},
                 Pass::kTraining, out.data());
  EXPECT_THAT(out, ElementsAre(1, 1, 0, 1, 1, 1, 1, 0, 0, 0));
  EXPECT_EQ(table.size(), 3);
  lookup.backward(Floats{1, 0, 4, 3, 0, 0, 2, 4, 0, 0}.data(), {.scale = 2});
  // Gradient of 7: 1 as a single key, and 3 * (2 + 1) / 4 in the bag; twice that, times .5.
  EXPECT_EQ(rows_of(table, {7, 8, 9}), (Floats{1 - 3.25f, 1, 1, 1 - 2, 1 - 0.75f, 1}));
  EXPECT_EQ(rows_of(other, {0, 1, 2}), (Floats{-2, 0, -2 - 4}));
  EXPECT_EQ(table.updates(), 1);
  const auto counts = lookup.take_counts();
  EXPECT_EQ(counts[2].keys, 3);
  EXPECT_EQ(counts[2].missing, 0);
}

TEST(PublicTable, ASavedTableContinuesWithTheSameBytes) {
  const TempFolder folder;
  for (const char* type : {"fp32", "bf16"}) {
    TableOptions options = adam();
    options.value_type = type;
    api::Table straight(options), before(options), after(options);
    train(straight, 0, 30);
    train(before, 0, 15);
    const std::string saved = folder.path(type);
    before.save(saved);
    after.load(saved);
    EXPECT_EQ(all_rows(after), all_rows(before));
    train(after, 15, 30, /*threads=*/3);
    EXPECT_EQ(all_rows(after), all_rows(straight));
    EXPECT_EQ(after.updates(), 30);
    EXPECT_LE(after.size(), 400);

    TableOptions other = options;
    other.optimizer = {"sgd"};
    api::Table weights(other);
    weights.load(saved, api::Table::Load::kWeightsOnly);
    EXPECT_EQ(all_rows(weights).weights, all_rows(before).weights);
    EXPECT_EQ(weights.updates(), 0);
  }
}

TEST(PublicTable, ALoadThatFailsLeavesTheTableAsItWas) {
  const TempFolder folder;
  api::Table table(adam());
  train(table, 0, 5);
  table.save(folder.path("saved"));
  const AllRows before = all_rows(table);
  EXPECT_THAT([&] { table.save(folder.path("saved")); },
              ThrowsMessage<Error>(HasSubstr("exists already")));
  std::filesystem::resize_file(folder.path("saved/state"), 12);
  EXPECT_THAT([&] { table.load(folder.path("saved")); },
              ThrowsMessage<Error>(HasSubstr("state has 12 bytes")));
  std::ofstream(folder.path("saved/updates.json")) << "[]";
  EXPECT_THAT([&] { table.load(folder.path("saved")); },
              ThrowsMessage<Error>(HasSubstr("updates.json")));
  EXPECT_THAT([&] { table.load(folder.path("nosuch")); }, testing::Throws<Error>());
  TableOptions other = adam();
  other.dim = 4;
  api::Table of_other_dim(other);
  EXPECT_THAT([&] { of_other_dim.load(folder.path("saved"), api::Table::Load::kWeightsOnly); },
              ThrowsMessage<Error>(HasSubstr("emb_vector has")));
  EXPECT_EQ(all_rows(table), before);
}

TEST(PublicTable, RowsThatDoNotFitChangeNothing) {
  const TempFolder folder;
  api::Table large({.dim = 2, .optimizer = {"adam"}, .capacity = 200, .eviction = "lru"});
  Keys keys(200);
  std::iota(keys.begin(), keys.end(), -30);
  Floats rows(400);
  large.read(keys, Pass::kTraining, rows);
  large.save(folder.path("large"));
  api::Table fixed_large({.dim = 2, .rows = 20});
  fixed_large.save(folder.path("fixed"));

  for (const char* eviction : {"none", "lru"}) {
    api::Table table({.dim = 2, .optimizer = {"adam"}, .capacity = 100, .eviction = eviction});
    api::Lookup lookup({{&table}});
    Floats out(10);
    const Keys some = {1, 2, 3, 4, 5};
    lookup.forward({{.keys = some}}, Pass::kTraining, out.data());
    const AllRows before = all_rows(table);
    for (const auto how : {api::Table::Load::kContinue, api::Table::Load::kWeightsOnly})
      EXPECT_THAT([&] { table.load(folder.path("large"), how); },
                  ThrowsMessage<Error>(HasSubstr("has 200 rows, but the capacity of table table is "
                                                 "100")));
    EXPECT_THAT(
        [&] {
          table.write({keys, Floats(400, 7)});
        },
        ThrowsMessage<Error>(HasSubstr("more than its capacity of 100")));
    if (table.options().eviction == "none") {
      EXPECT_THAT([&] { table.read(keys, Pass::kTraining, rows); },
                  ThrowsMessage<Error>(HasSubstr("is full")));
    }
    EXPECT_EQ(table.erase(Keys{77}), 0);
    EXPECT_EQ(all_rows(table), before);
    lookup.backward(out.data());  // calls that have failed do not take the gradients
    EXPECT_EQ(table.updates(), 1);
    table.write({Keys(200, 1), Floats(400, 7)});  // one key
    EXPECT_EQ(table.size(), 5);
  }

  api::Table fixed({.dim = 2, .rows = 10});
  const AllRows before = all_rows(fixed);
  EXPECT_THAT(
      [&] {
        fixed.write({Keys{1, 2, 999}, Floats(6, 7)});
      },
      ThrowsMessage<Error>(HasSubstr("key 999 is outside [0, 10)")));
  EXPECT_THAT([&] { fixed.load(folder.path("fixed")); },
              ThrowsMessage<Error>(HasSubstr("has 20 rows, but table table has 10")));
  EXPECT_THAT([&] { fixed.load(folder.path("fixed"), api::Table::Load::kWeightsOnly); },
              ThrowsMessage<Error>(HasSubstr("key 10 is outside [0, 10)")));
  EXPECT_EQ(all_rows(fixed), before);
}

TEST(PublicTable, ASaveLeavesFoldersOfSimilarNamesAlone) {
  const TempFolder folder;
  folder.write("model.partial/notes", "mine");
  api::Table table({.dim = 2, .rows = 3});
  table.save(folder.path("model"));
  EXPECT_TRUE(std::filesystem::exists(folder.path("model.partial/notes")));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2);
}

TEST(PublicTable, ATableOfACheckpointHasHadTheUpdatesOfItsTraining) {
  const TempFolder folder;
  const std::string checkpoint = train_clicks(folder.path("model"));
  const auto saved = *std::filesystem::directory_iterator(checkpoint + "/tables");
  const auto facts = nlohmann::json::parse(read_text_file(saved.path() / "table.json"));
  TableOptions options{.dim = facts["dim"].get<int64_t>(),
                       .optimizer = {facts["optimizer"].get<std::string>()}};
  if (facts["kind"] == "static") options.rows = facts["rows"].get<int64_t>();
  api::Table table(options);
  table.load(saved.path());
  EXPECT_EQ(table.updates(), 20);  // 2 epochs of 1000 rows in batches of 100
  table.load(saved.path().string() + "/", api::Table::Load::kWeightsOnly);
  EXPECT_EQ(table.updates(), 0);
}

TEST(PublicTable, RowsAreWrittenWithTheirState) {
  TableOptions options = adam();
  options.eviction = "custom";
  api::Table from(options), to(options);
  from.set_next_score(4);
  train(from, 0, 3);
  const AllRows rows = all_rows(from);
  EXPECT_EQ(static_cast<int64_t>(rows.states.size()), from.size() * from.state_floats());
  to.write({rows.keys, rows.weights, rows.states, rows.scores});
  to.set_updates(3);
  EXPECT_EQ(all_rows(to), rows);
  EXPECT_THAT(
      [&] {
        to.write({rows.keys, Floats(3)});
      },
      ThrowsMessage<Error>(HasSubstr("weights")));
  EXPECT_EQ(all_rows(to), rows);
  EXPECT_GT(from.bytes(), 0);
}

TEST(PublicTable, OptionsThatContradictEachOtherAreRefused) {
  const auto expect = [](const TableOptions& options, const char* message) {
    EXPECT_THAT([&] { api::Table table(options); }, ThrowsMessage<Error>(HasSubstr(message)));
  };
  expect({}, "dimension is 0");
  expect({.dim = 4, .rows = -1}, "rows is -1");
  expect({.dim = 4, .rows = 4, .capacity = 9}, "those of a dynamic table");
  expect({.dim = 4, .value_type = "int8"}, "expected one of fp32, fp16, bf16");
  expect({.dim = 4, .initializer = "gauss"}, "init_fn");
  expect({.dim = 4, .optimizer = {"adagrd"}}, "adagrad");
  expect({.dim = 4, .optimizer = {"adam", {{"beta3", "1"}}}}, "beta");
  expect({.dim = 4, .optimizer = {"adam", {{"lr", "-1"}}}}, "lr");
  expect({.dim = 4, .optimizer = {"sgd", {{"gradient_clipping", "true"}}}}, "clip gradients before update()");
  expect({.dim = 4, .eviction = "lru"}, "needs a capacity");
  expect({.dim = 4, .capacity = 9, .eviction = "fifo"}, "none, lru, lfu, step, custom");
  expect({.dim = 4, .device = "tpu"}, "expected cpu or cuda");
  expect({.dim = 4, .placement = "cache"}, "for the device cuda");
  expect({.dim = 1 << 20, .rows = int64_t{1} << 30}, "out of memory");
}

TEST(PublicTable, LookupsRefuseWhatDoesNotFit) {
  api::Table table({.dim = 2, .capacity = 3});
  api::Table fixed({.dim = 2, .rows = 3});
  api::Lookup lookup({{&table}, {&fixed}});
  Floats out(100);
  const auto expect = [&](std::initializer_list<FeatureKeys> features, const char* message) {
    EXPECT_THAT([&] { lookup.forward(features, Pass::kTraining, out.data()); },
                ThrowsMessage<Error>(HasSubstr(message)));
    EXPECT_THAT([&] { lookup.backward(out.data()); },
                ThrowsMessage<Error>(HasSubstr("training pass")));
  };
  const Keys two = {0, 1}, three = {0, 1, 2}, four = {0, 1, 2, 3};
  const std::vector<int32_t> falling = {0, 2, 1, 2}, long_ones = {0, 1, 5};
  const Floats weight = {1};
  expect({{.keys = two}}, "keys of 1 features");
  expect({{.keys = two}, {.keys = three}}, "has 3 keys for 2 bags");
  expect({{.keys = three}, {.keys = two, .offsets = falling}}, "do not rise from 0");
  expect({{.keys = two}, {.keys = two, .offsets = long_ones}}, "do not rise from 0");
  expect({{.keys = two}, {.keys = two, .weights = weight}}, "1 weights for 2 keys");
  expect({{.keys = two}, {.keys = Keys{1, 3}}}, "key 3 is outside [0, 3)");
  expect({{.keys = four}, {.keys = Keys(4)}}, "full");
  EXPECT_THAT([] { api::Lookup none({}); }, ThrowsMessage<Error>(HasSubstr("no features")));
  EXPECT_THAT(
      [&] {
        api::Lookup odd({{&table, "max"}});
      },
      ThrowsMessage<Error>(HasSubstr("sum or mean")));
  EXPECT_THAT([&] { api::Lookup odd({{nullptr}}); }, ThrowsMessage<Error>(HasSubstr("no table")));
}

TEST(PublicTable, ALearningRateOrAScaleThatIsNoneIsRefused) {
  api::Table table({.dim = 1});
  api::Lookup lookup({{&table}});
  const Keys keys = {1};
  const Floats gradient = {2};
  Floats out(1);
  lookup.forward({{.keys = keys}}, Pass::kTraining, out.data());
  for (const float rate : {-0.1f, -1.0f, NAN, INFINITY})
    EXPECT_THAT([&] { lookup.backward(gradient.data(), {.learning_rate = rate}); },
                ThrowsMessage<Error>(HasSubstr("learning rate is")));
  EXPECT_THAT([&] { lookup.backward(gradient.data(), {.scale = NAN}); },
              ThrowsMessage<Error>(HasSubstr("scale of gradients is nan")));
  lookup.backward(gradient.data(), {.learning_rate = 0.0f});
  EXPECT_EQ(rows_of(table, keys), out);
}

TEST(PublicTable, TablesOfDifferentAgesAreNotUpdatedByTheSameStep) {
  const Keys keys = {1, 2};
  Floats out(4);
  const auto step = [&](api::Lookup& lookup) {
    lookup.forward({{.keys = keys}, {.keys = keys}}, Pass::kTraining, out.data());
    lookup.backward(out.data(), {.learning_rate = 0.1f});
  };
  api::Table old({.name = "old", .dim = 1, .optimizer = {"adam"}});
  old.set_updates(100'000);
  {
    api::Table fresh({.name = "fresh", .dim = 1, .optimizer = {"adam"}});
    api::Lookup lookup({{&old}, {&fresh}});
    EXPECT_THAT([&] { step(lookup); },
                ThrowsMessage<Error>(HasSubstr("table fresh has had 0 updates, but table old "
                                               "100000, and adam depends on their number")));
    EXPECT_EQ(fresh.size(), 0);
    fresh.set_updates(100'000);
    step(lookup);
  }
  api::Table plain({.name = "plain", .dim = 1, .optimizer = {"adagrad"}});
  api::Lookup lookup({{&old}, {&plain}});
  step(lookup);
  EXPECT_EQ(old.updates(), 100'002);
  EXPECT_EQ(plain.updates(), 1);
}

TEST(PublicTable, GradientsBelongToTheLastTrainingPass) {
  api::Table table({.dim = 1});
  const Keys keys = {1, 2};
  Floats out(2);
  {
    api::Lookup lookup({{&table}});
    EXPECT_THAT([&] { lookup.backward(out.data()); }, ThrowsMessage<Error>(HasSubstr("without")));
    lookup.forward({{.keys = keys}}, Pass::kTraining, out.data());
    api::Lookup second({{&table}});
    second.forward({{.keys = keys}}, Pass::kInference, out.data());  // reads at any time
    EXPECT_THAT([&] { second.forward({{.keys = keys}}, Pass::kTraining, out.data()); },
                ThrowsMessage<Error>(HasSubstr("trained by another lookup")));
    table.erase(Keys{2});
    EXPECT_THAT([&] { lookup.backward(out.data()); }, ThrowsMessage<Error>(HasSubstr("changed")));
    lookup.forward({{.keys = keys}}, Pass::kTraining, out.data());
    lookup.backward(out.data());
    EXPECT_THAT([&] { lookup.backward(out.data()); },
                ThrowsMessage<Error>(HasSubstr("one backward")));
  }
  api::Lookup third({{&table}});
  third.forward({{.keys = keys}}, Pass::kTraining, out.data());
}

TEST(PublicTable, ALookupKeepsWhatItsTableHolds) {
  auto table =
      std::make_unique<api::Table>(TableOptions{.dim = 1, .initializer = "constant,val=3"});
  api::Lookup lookup({{table.get()}});
  api::Table moved = std::move(*table);
  table.reset();
  const Keys keys = {1, 2};
  Floats out(2);
  lookup.forward({{.keys = keys}}, Pass::kTraining, out.data());
  EXPECT_EQ(out, (Floats{3, 3}));
  EXPECT_EQ(moved.size(), 2);
  moved = api::Table({.dim = 1});
  lookup.forward({{.keys = keys}}, Pass::kInference, out.data());
  EXPECT_EQ(out, (Floats{3, 3}));
}

}  // namespace
}  // namespace emblem
