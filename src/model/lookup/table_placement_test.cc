#include "model/lookup/table_placement.h"

#include <gmock/gmock.h>

#include "emblem/error.h"

namespace emblem {
namespace {

TableSettings placed_table(const std::string& name, int64_t rows,
                           TableKind kind = TableKind::kStatic) {
  TableSettings settings;
  settings.name = name;
  settings.dim = 16;
  settings.kind = kind;
  settings.capacity = rows;
  return settings;
}

TEST(TablePlacement, ARowHasWeightsAndOptimizerState) {
  TableSettings settings = placed_table("t", 10);
  EXPECT_EQ(row_bytes_of(settings), 16 * 4);
  settings.rule = Adam{};
  settings.dtype = DType::kBf16;
  EXPECT_EQ(row_bytes_of(settings), 16 * 2 + 2 * 16 * 4);
  EXPECT_EQ(table_bytes_of(settings), 10 * (16 * 2 + 2 * 16 * 4));
}

TEST(TablePlacement, TablesThatFitTogetherAllLieOnTheDevice) {
  std::vector<TableSettings> tables = {placed_table("a", 1000), placed_table("b", 3000)};
  place_tables(tables, 4000 * 64 * 2);
  for (const TableSettings& one : tables) EXPECT_EQ(one.placement, Placement::kDevice) << one.name;
}

TEST(TablePlacement, SmallTablesGetAllTheyNeedAndLargeOnesShareTheRestBySize) {
  std::vector<TableSettings> tables = {placed_table("large", 30000), placed_table("small", 100),
                                       placed_table("larger", 90000)};
  place_tables(tables, 12100 * 64);
  EXPECT_EQ(tables[1].placement, Placement::kDevice);
  EXPECT_EQ(tables[0].placement, Placement::kCache);
  EXPECT_EQ(tables[0].device_bytes, 3000 * 64);
  EXPECT_EQ(tables[2].placement, Placement::kCache);
  EXPECT_EQ(tables[2].device_bytes, 9000 * 64);
}

TEST(TablePlacement, ATableWithoutLimitCannotBeCached) {
  std::vector<TableSettings> tables = {placed_table("grows", 0, TableKind::kDynamic)};
  tables[0].initial_capacity = 100000;
  try {
    place_tables(tables, 1000);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("grows"));
    EXPECT_THAT(error.what(), testing::HasSubstr("max_capacity"));
  }
}

}  // namespace
}  // namespace emblem
