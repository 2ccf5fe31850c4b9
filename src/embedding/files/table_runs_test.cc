#include "embedding/files/table_runs.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "core/files/file.h"
#include "core/files/temp_folder_test.h"
#include "core/math/random.h"
#include "embedding/tables_test.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class TableRunsTest : public testing::TestWithParam<TableKind> {
 protected:
  TableSettings settings(PartRange held = {}) const {
    TableSettings one{.name = "items", .dim = 3, .kind = GetParam(), .rule = AdaGrad{}};
    if (GetParam() == TableKind::kStatic) one.capacity = 5000;
    one.held = held;
    return one;
  }
  // Rows that depend on their keys alone.
  std::unique_ptr<Table> table(PartRange held = {}) const {
    auto made = make_table(context_, settings(held));
    const PartFilter filter{.parts = held, .is_hashed = GetParam() == TableKind::kDynamic};
    std::vector<int64_t> keys, scores;
    std::vector<float> weights, states;
    for (int64_t key = 0; key < 5000; key += 3) {
      const int64_t named = filter.is_hashed ? key * 1000003 - 2000000 : key;
      if (!filter.takes(named)) continue;
      keys.push_back(named);
      scores.push_back(key);
      for (int64_t i = 0; i < 3; ++i) {
        weights.push_back(static_cast<float>(3 * key + i));
        states.push_back(static_cast<float>(key - i));
      }
    }
    if (filter.is_hashed)
      made->import_rows(context_, {keys, weights, states, scores});
    else
      made->import_rows(context_, {keys, weights, states});
    return made;
  }
  void save_runs(int32_t ranks) {
    for (int32_t rank = 0; rank < ranks; ++rank)
      save_table(context_, *table(part_range_of(rank, ranks)), folder_ + "/" + run_name(rank));
  }
  std::string bytes_of(const Table& table) {
    const std::string other = temp_.path("bytes");
    std::filesystem::remove_all(other);
    std::string all;
    for (const WrittenFile& file : save_table(context_, table, other))
      all += file.name + ":" + read_text_file(other + "/" + file.name);
    return all;
  }
  void resize(const std::string& name, int64_t by) {
    const std::string path = folder_ + "/" + name;
    std::filesystem::resize_file(path,
                                 std::filesystem::file_size(path) + static_cast<uintmax_t>(by));
  }
  void merge() { merge_runs(folder_, temp_.path("merged")); }
  void load() {
    load_table(context_, folder_, LoadMode::kContinue, *make_table(context_, settings()));
  }

  Context context_;
  TempFolder temp_;
  std::string folder_ = temp_.path("table");
};

INSTANTIATE_TEST_SUITE_P(Kinds, TableRunsTest,
                         testing::Values(TableKind::kStatic, TableKind::kDynamic));

TEST_P(TableRunsTest, MergedTheyAreTheWholeTable) {
  const std::string whole = temp_.path("whole"), merged = temp_.path("merged");
  save_table(context_, *table(), whole);
  for (const int32_t ranks : {1, 2, 3, 8, 50}) {
    std::filesystem::remove_all(folder_);
    std::filesystem::remove_all(merged);
    save_runs(ranks);
    EXPECT_TRUE(has_runs(folder_));
    for (const WrittenFile& file : merge_runs(folder_, merged)) {
      EXPECT_EQ(file.bytes, std::filesystem::file_size(merged + "/" + file.name));
      if (file.name != "table.json") {
        EXPECT_EQ(read_text_file(merged + "/" + file.name),
                  read_text_file(whole + "/" + file.name));
      }
    }
    EXPECT_EQ(read_table_facts(merged).rows, read_table_facts(whole).rows);
  }
}

TEST_P(TableRunsTest, LoadIntoAnyNumberOfHolders) {
  const std::string all = bytes_of(*table());
  for (const int32_t writers : {1, 3, 8}) {
    std::filesystem::remove_all(folder_);
    save_runs(writers);
    for (const int32_t readers : {1, 2, 5}) {
      for (int32_t reader = 0; reader < readers; ++reader) {
        const PartRange held = part_range_of(reader, readers);
        auto loaded = make_table(context_, settings(held));
        load_table(context_, folder_, LoadMode::kContinue, *loaded);
        EXPECT_EQ(bytes_of(*loaded), bytes_of(*table(held))) << writers << " " << readers;
      }
    }
  }
}

TEST_P(TableRunsTest, AreInTheOrderOfRanks) {
  EXPECT_EQ(run_name(7), "00007");
  EXPECT_EQ(run_name(123456), "123456");
  std::filesystem::create_directories(folder_ + "/notes");
  for (const int rank : {10, 2, 0})
    std::filesystem::create_directories(folder_ + "/" + run_name(rank));
  EXPECT_THAT(runs_of_table(folder_),
              ElementsAre(folder_ + "/00000", folder_ + "/00002", folder_ + "/00010"));
  EXPECT_FALSE(has_runs(temp_.path("missing")));
}

TEST_P(TableRunsTest, ADamagedRunIsNamed) {
  save_runs(3);
  resize("00001/emb_vector", -4);
  EXPECT_THAT([&] { merge(); }, ThrowsMessage<Error>(HasSubstr("00001: emb_vector has ")));
  EXPECT_THAT([&] { load(); }, ThrowsMessage<Error>(HasSubstr("00001: emb_vector has ")));
  resize("00001/emb_vector", 4);
  resize("00001/key", -3);
  EXPECT_THAT([&] { merge(); }, ThrowsMessage<Error>(HasSubstr("00001: key has ")));
  EXPECT_THAT([&] { load(); }, ThrowsMessage<Error>(HasSubstr("00001: key has ")));
}

TEST_P(TableRunsTest, ARunWithFewerRowsThanItSaysIsNamed) {
  save_runs(3);
  resize("00002/key", -8);
  resize("00002/emb_vector", -12);
  EXPECT_THAT([&] { merge(); }, ThrowsMessage<Error>(HasSubstr("00002: table.json says ")));
}

TEST_P(TableRunsTest, AKeyInTwoRunsIsRefused) {
  save_runs(3);
  std::filesystem::remove_all(folder_ + "/00002");
  std::filesystem::copy(folder_ + "/00001", folder_ + "/00002");
  EXPECT_THAT([&] { merge(); }, ThrowsMessage<Error>(HasSubstr("is a duplicate")));
}

TEST_P(TableRunsTest, AMissingFileIsNamed) {
  save_runs(2);
  std::filesystem::remove(folder_ + "/00001/key");
  EXPECT_THAT([&] { merge(); }, ThrowsMessage<Error>(HasSubstr("00001/key")));
  EXPECT_THAT([&] { load(); }, ThrowsMessage<Error>(HasSubstr("00001")));
}

}  // namespace
}  // namespace emblem
