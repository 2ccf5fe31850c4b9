// Tables that hold some of their parts, on every device.
#include <gtest/gtest.h>

#include <map>

#include "embedding/row_share.h"
#include "embedding/tables_test.h"

namespace emblem {
namespace {

constexpr int64_t kRows = 9001;  // beyond two blocks of kParts
constexpr PartRange kHeld{1000, 1907};

class TableParts : public DeviceTest {
 protected:
  std::unique_ptr<Table> table(PartRange held) const {
    TableSettings settings{.name = "t", .dim = 4, .capacity = kRows, .rule = Adam{}};
    settings.held = held;
    return make_table(context_, settings);
  }
  // Key -> weights and state, in the order in which they are exported.
  std::vector<std::pair<int64_t, std::vector<float>>> rows_of(const Table& table,
                                                              std::optional<int64_t> since = {}) {
    std::vector<std::pair<int64_t, std::vector<float>>> rows;
    table.export_rows(
        context_, 500,
        [&](const RowBatch& batch) {
          const auto dim = static_cast<size_t>(table.dim());
          for (size_t i = 0; i < batch.keys.size(); ++i)
            rows.emplace_back(batch.keys[i],
                              std::vector<float>(batch.weights.begin() + i * dim,
                                                 batch.weights.begin() + (i + 1) * dim));
        },
        since);
    return rows;
  }
};

TEST_P(TableParts, HaveTheRowsOfTheWholeTable) {
  const auto whole = table({}), part = table(kHeld);
  std::vector<std::pair<int64_t, std::vector<float>>> expected;
  for (const auto& row : rows_of(*whole))
    if (kHeld.contains(part_of_static_key(row.first))) expected.push_back(row);
  EXPECT_EQ(rows_of(*part), expected);
  EXPECT_EQ(part->size(), static_cast<int64_t>(expected.size()));
  EXPECT_LT(part->bytes(), whole->bytes() / 2);
  std::vector<float> weights(4);
  for (size_t i = 0; i < expected.size(); i += 100) {
    ASSERT_TRUE(part->read(expected[i].first, weights));
    EXPECT_EQ(weights, expected[i].second);
  }
}

TEST_P(TableParts, ImportedRowsAreReadByTheirKeys) {
  const auto part = table(kHeld);
  std::vector<int64_t> keys;
  for (int64_t key = 0; key < kRows; key += 7)
    if (kHeld.contains(part_of_static_key(key))) keys.push_back(key);
  std::vector<float> weights, states(keys.size() * 8, 0.5f);
  for (const int64_t key : keys)
    for (int d = 0; d < 4; ++d) weights.push_back(static_cast<float>(key * 4 + d));
  const int64_t before = part->version();
  part->import_rows(context_, {keys, weights, states, {}});
  std::vector<float> found(4);
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSERT_TRUE(part->read(keys[i], found));
    EXPECT_EQ(found[1], static_cast<float>(keys[i] * 4 + 1));
  }
  const auto changed = rows_of(*part, before);
  ASSERT_EQ(changed.size(), keys.size());
  for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(changed[i].first, keys[i]);
}

TEST_P(TableParts, LookupsTakeLocalRows) {
  const auto whole = table({}), part = table(kHeld);
  std::vector<int64_t> keys, local;
  for (int64_t key = 0; key < kRows && keys.size() < 50; key += 3) {
    if (!kHeld.contains(part_of_static_key(key))) continue;
    keys.push_back(key);
    local.push_back(local_row(key, kHeld));
  }
  TestLookup of_whole(context_, {{whole.get(), Pooling::kSum}}, Sums::kDeterministic);
  TestLookup of_part(context_, {{part.get(), Pooling::kSum}}, Sums::kDeterministic);
  const std::vector<float> gradients(keys.size() * 4, 0.25f);
  const auto count = static_cast<int64_t>(keys.size());
  EXPECT_EQ(of_part.forward({{local, {}, {}}}, count), of_whole.forward({{keys, {}, {}}}, count));
  of_part.backward(gradients);
  of_whole.backward(gradients);
  std::vector<float> a(4), b(4);
  for (const int64_t key : keys) {
    ASSERT_TRUE(part->read(key, a) && whole->read(key, b));
    EXPECT_EQ(a, b) << key;
  }
}

TEST_P(TableParts, NoPartsIsAnEmptyTable) {
  const auto none = table({5, 5});
  EXPECT_EQ(none->size(), 0);
  EXPECT_TRUE(rows_of(*none).empty());
}

EMBLEM_TEST_ON_EVERY_DEVICE(TableParts);

}  // namespace
}  // namespace emblem
