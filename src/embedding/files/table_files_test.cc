#include "embedding/files/table_files.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "core/files/file.h"
#include "core/files/temp_folder_test.h"
#include "embedding/tables_test.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class TableFilesTest : public TablesTest {
 protected:
  static TableSettings settings(DType dtype = DType::kF32) {
    return {.name = "items",
            .dim = 4,
            .dtype = dtype,
            .kind = TableKind::kDynamic,
            .capacity = 300,
            .eviction = Eviction::kLru,
            .admission_threshold = 2,
            .rule = Adam{}};
  }
  // Trains steps [first, last) on a stream of keys that depends on the step alone.
  void train(Table& table, int first, int last) {
    TestLookup lookup = over({{&table, Pooling::kMean}}, Sums::kDeterministic);
    for (int step = first; step < last; ++step) {
      Random random{.seed = 6, .stream = static_cast<uint64_t>(step)};
      Bags bags;
      for (int i = 0; i < 120; ++i)
        bags.keys.push_back(static_cast<int64_t>(random.below(700)) - 100);
      for (int32_t offset = 0; offset <= 120; offset += 3) bags.offsets.push_back(offset);
      std::vector<float> out = lookup.forward({bags}, 40);
      for (float& value : out) value = value * 0.5f + random.normal();
      lookup.backward(out, 0.5f, step + 1, 0.01f);
    }
  }
  std::string bytes_of(const Table& table) {
    const std::string other = folder_ + "_bytes";
    std::filesystem::remove_all(other);
    std::string all;
    for (const WrittenFile& file : save_table(context_, table, other)) {
      all += file.name + ":" + read_text_file(other + "/" + file.name);
    }
    return all;
  }
  void truncate(const char* name, int64_t bytes) {
    std::filesystem::resize_file(folder_ + "/" + name, static_cast<uintmax_t>(bytes));
  }

  TempFolder temp_;
  std::string folder_ = temp_.path("table");
};
EMBLEM_TEST_ON_EVERY_DEVICE(TableFilesTest);

TEST_P(TableFilesTest, AReloadedTableContinuesWithTheSameBytes) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16}) {
    Table &straight = make(settings(dtype)), &before = make(settings(dtype)),
          &after = make(settings(dtype));
    train(straight, 0, 60);
    train(before, 0, 30);
    save_table(context_, before, folder_);
    after.import_rows(context_,
                      {std::vector<int64_t>{12345}, std::vector<float>(4)});  // is replaced
    load_table(context_, folder_, LoadMode::kContinue, after);
    EXPECT_EQ(bytes_of(after), bytes_of(before));
    train(after, 30, 60);
    EXPECT_EQ(bytes_of(after), bytes_of(straight));
  }
}

TEST_P(TableFilesTest, RowsThatAreNaNOrInfiniteAreNotSaved) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    Table& table = make({.name = "t", .dim = 2, .kind = TableKind::kDynamic});
    table.import_rows(context_, {std::vector<int64_t>{5, 6}, std::vector<float>{1, 2, 3, bad}});
    EXPECT_THAT([&] { save_table(context_, table, folder_); },
                ThrowsMessage<Error>(HasSubstr("table t: the row of key 6 has NaN or infinite")));
  }
}

TEST_P(TableFilesTest, KeysAndWeightsAreHeaderlessAndSorted) {
  Table& table = make({.name = "t", .dim = 2, .kind = TableKind::kDynamic});
  table.import_rows(context_, {std::vector<int64_t>{5, -1}, std::vector<float>{1, 2, 3, 4}});
  const auto files = save_table(context_, table, folder_);
  const std::string keys = read_text_file(folder_ + "/key"),
                    weights = read_text_file(folder_ + "/emb_vector");
  ASSERT_EQ(keys.size(), 16u);
  ASSERT_EQ(weights.size(), 16u);
  int64_t key[2];
  float weight[4];
  std::memcpy(key, keys.data(), 16);
  std::memcpy(weight, weights.data(), 16);
  EXPECT_THAT(key, testing::ElementsAre(-1, 5));
  EXPECT_THAT(weight, testing::ElementsAre(3, 4, 1, 2));
  std::vector<std::string> names;
  for (const auto& file : files) {
    names.push_back(file.name);
    EXPECT_EQ(file.bytes, std::filesystem::file_size(folder_ + "/" + file.name));
  }
  EXPECT_THAT(names, testing::ElementsAre("key", "emb_vector", "score", "table.json"));
}

TEST_P(TableFilesTest, AStaticTableComesBackWhole) {
  const TableSettings settings{.name = "s", .dim = 3, .capacity = 50, .rule = AdaGrad{}};
  Table &saved = make(settings), &loaded = make(settings);
  saved.import_rows(context_, {std::vector<int64_t>{7}, std::vector<float>{1, 2, 3},
                               std::vector<float>{4, 5, 6}});
  save_table(context_, saved, folder_);
  load_table(context_, folder_, LoadMode::kContinue, loaded);
  EXPECT_EQ(bytes_of(loaded), bytes_of(saved));
  EXPECT_EQ(read_table_facts(folder_).optimizer, "adagrad");
}

TEST_P(TableFilesTest, WeightsAloneGiveRowsNewState) {
  Table& saved = make(settings());
  train(saved, 0, 10);
  save_table(context_, saved, folder_);
  std::filesystem::remove(folder_ + "/table.json");
  TableSettings other = settings();
  other.rule = AdaGrad{};
  other.initial_accumulator = 0.1f;
  Table& loaded = make(other);
  load_table(context_, folder_, LoadMode::kWeightsOnly, loaded);
  ASSERT_EQ(loaded.size(), saved.size());
  saved.export_rows(context_, 100, [&](const RowBatch& batch) {
    std::vector<float> weights(4), state(4);
    ASSERT_TRUE(loaded.read(batch.keys[0], weights, state));
    EXPECT_EQ(weights, std::vector<float>(batch.weights.begin(), batch.weights.begin() + 4));
    EXPECT_THAT(state, testing::Each(0.1f));
  });
}

TEST_P(TableFilesTest, AFolderThatCannotBeMadeIsNamed) {
  Table& table = make(settings());
  save_table(context_, table, folder_);
  const std::string inside_a_file = folder_ + "/key/table";
  EXPECT_THAT([&] { save_table(context_, table, inside_a_file); },
              ThrowsMessage<Error>(
                  HasSubstr(cat("cannot make the folder ", inside_a_file, ": Not a directory"))));
}

TEST_P(TableFilesTest, FilesOfTheWrongSizeAreNamed) {
  Table& table = make(settings());
  table.import_rows(context_, {std::vector<int64_t>{1, 2, 3}, std::vector<float>(12)});
  const auto load = [&] { load_table(context_, folder_, LoadMode::kContinue, table); };
  save_table(context_, table, folder_);
  truncate("emb_vector", 40);
  EXPECT_THAT(load, ThrowsMessage<Error>(
                        HasSubstr("emb_vector has 40 bytes, but 3 keys of dimension 4 need 48")));
  truncate("emb_vector", 48);
  truncate("state", 4);
  EXPECT_THAT(load, ThrowsMessage<Error>(
                        HasSubstr("state has 4 bytes, but 3 keys with 8 floats of state need 96")));
  truncate("key", 20);
  EXPECT_THAT(load, ThrowsMessage<Error>(
                        HasSubstr("key has 20 bytes, which is not a whole number of 8-byte keys")));
  std::filesystem::remove(folder_ + "/key");
  EXPECT_THAT(load, ThrowsMessage<Error>(HasSubstr("key")));
  std::ofstream(folder_ + "/table.json") << "{}";
  EXPECT_THAT(load, ThrowsMessage<Error>(HasSubstr("table.json: does not describe a table")));
  EXPECT_EQ(table.size(), 3);  // as it was
}

TEST_P(TableFilesTest, RowsThatCannotBeLoadedAreRefusedBeforeAnyOther) {
  Table& table = make(settings());
  table.import_rows(context_, {std::vector<int64_t>{1, 2, 3}, std::vector<float>(12)});
  save_table(context_, table, folder_);
  TableSettings small = settings();
  small.capacity = 2;
  small.eviction = Eviction::kLru;
  Table& loaded = make(small);
  loaded.import_rows(context_, {std::vector<int64_t>{9}, std::vector<float>(4)});
  const auto load = [&](LoadMode mode) {
    return [&, mode] { load_table(context_, folder_, mode, loaded); };
  };
  const auto write = [&](const char* name, const std::vector<int64_t>& values) {
    std::ofstream(folder_ + "/" + name, std::ios::binary)
        .write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(int64_t)));
  };
  for (const LoadMode mode : {LoadMode::kContinue, LoadMode::kWeightsOnly})
    EXPECT_THAT(load(mode), ThrowsMessage<Error>(HasSubstr(
                                "the saved table has 3 rows, but the capacity of table items is 2; "
                                "raise it")));
  write("key", {3, 1, 3});  // in any order, and the last of equal ones counts
  EXPECT_THAT(
      load(LoadMode::kContinue),
      ThrowsMessage<Error>(HasSubstr("table.json says 3 rows, but key holds 2 different keys")));
  EXPECT_THAT(keys_of(loaded), ElementsAre(9));
  load(LoadMode::kWeightsOnly)();
  EXPECT_THAT(keys_of(loaded), ElementsAre(1, 3));
  write("key", {1, 2, 3});
  write("score", {1, INT64_MIN, 1});
  EXPECT_THAT(load(LoadMode::kContinue),
              ThrowsMessage<Error>(HasSubstr("for key 2, which is not")));
  write("score", {1, 1, 1});
  write("admission", {7, 0});
  EXPECT_THAT(load(LoadMode::kContinue),
              ThrowsMessage<Error>(HasSubstr("the count 0 of key 7, but counts begin at 1")));
  EXPECT_THAT(keys_of(loaded), ElementsAre(1, 3));
}

TEST_P(TableFilesTest, ATableOfAnotherShapeIsRefused) {
  Table& table = make(settings());
  save_table(context_, table, folder_);
  const auto load_into = [&](auto change) {
    TableSettings other = settings();
    change(other);
    return [=, this] {
      Table& loaded = make(other);
      load_table(context_, folder_, LoadMode::kContinue, loaded);
    };
  };
  EXPECT_THAT(
      load_into([](auto& s) { s.dim = 8; }),
      ThrowsMessage<Error>(HasSubstr("the saved table has dimension 4, but table items has 8")));
  EXPECT_THAT(load_into([](auto& s) { s.rule = Ftrl{}; }),
              ThrowsMessage<Error>(HasSubstr("trained with adam, but table items uses ftrl")));
  EXPECT_THAT(
      load_into([](auto& s) {
        s.kind = TableKind::kStatic;
        s.eviction = Eviction::kNone;
        s.admission_threshold = 0;
      }),
      ThrowsMessage<Error>(HasSubstr("the saved table is dynamic, but table items is static")));
}

}  // namespace
}  // namespace emblem
