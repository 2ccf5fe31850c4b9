#include "train/state/whole_rows.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "comm/threads/threads.h"
#include "core/device/device_test.h"
#include "embedding/cpu/host_table.h"
#include "shard/sharded_lookup.h"

namespace emblem {
namespace {

using testing::ElementsAre;

class CountingTable : public HostTable {
 public:
  using HostTable::HostTable;
  void export_rows(const Context& context, int64_t batch_rows,
                   const std::function<void(const RowBatch&)>& take,
                   std::optional<int64_t> since) const override {
    ++exports;
    HostTable::export_rows(context, batch_rows, take, since);
  }
  mutable int exports = 0;
};

// The last of three ranks has no columns.
class ExportOnce : public testing::Test {
 protected:
  void export_rows(const std::vector<int64_t>& keys) {
    run_thread_ranks(3, [&](Communicator& ranks) {
      const TableShards shards = by_columns("t", {1, 0}, 3);
      const TableSettings whole{.name = "t", .dim = 3, .kind = TableKind::kDynamic, .rule = Adam{}};
      const TableSettings part = settings_of_part(whole, shards, ranks.rank());
      CountingTable table({}, part);
      std::vector<float> weights;
      for (const int64_t key : keys)
        for (int64_t d = 0; d < part.dim; ++d)
          weights.push_back(static_cast<float>(10 * key + part.columns.first + d));
      if (part.held.count() > 0) table.import_rows({}, {keys, weights});
      export_whole_rows({}, ranks, shards, table, 2, 1, [&](const RowBatch& batch) {
        EXPECT_EQ(ranks.rank(), 1);
        batches_.emplace_back(batch.keys.begin(), batch.keys.end());
        weights_.insert(weights_.end(), batch.weights.begin(), batch.weights.end());
      });
      EXPECT_EQ(table.exports, part.held.count() > 0 ? 1 : 0);
    });
  }
  std::vector<std::vector<int64_t>> batches_;
  std::vector<float> weights_;
};

TEST_F(ExportOnce, AreExportedOnceByEachRankWithColumns) {
  export_rows({4, 5, 7});
  EXPECT_THAT(batches_, ElementsAre(ElementsAre(4, 5), ElementsAre(7)));
  EXPECT_THAT(weights_, ElementsAre(40, 41, 42, 50, 51, 52, 70, 71, 72));
}

TEST_F(ExportOnce, MayBeNone) {
  export_rows({});
  EXPECT_TRUE(batches_.empty());
}

constexpr int64_t kDim = 3, kBatchRows = 1000;

float weight_of(int64_t key, int64_t column) {
  return static_cast<float>(key % 1009) + 0.25f * static_cast<float>(column);
}

// Rows of a slice, written out column by column.
std::vector<float> slice_of(const std::vector<int64_t>& keys, const TableSettings& slice) {
  std::vector<float> weights;
  for (const int64_t key : keys)
    for (int64_t d = 0; d < slice.dim; ++d)
      weights.push_back(weight_of(key, slice.columns.first + d));
  return weights;
}

class WholeRowsTest : public DeviceTest {};

// A GPU has rows in any order and exports them by key, in ranges of about a million that depend on
// that order; a CPU exports them as they came.
TEST_P(WholeRowsTest, HaveTheColumnsOfAllSlices) {
  const bool in_any_order = GetParam() == Device::kCuda;
  const int64_t rows = in_any_order ? 1'300'000 : 2500;
  int64_t found = 0, wrong = 0, most = 0;
  run_thread_ranks(3, [&](Communicator& ranks) {
    Context context{.device = GetParam()};
    const auto stream = use_own_stream(context);
    const TableShards shards = by_columns("user", {2, 0}, 3);
    const TableSettings whole{.name = "user", .dim = kDim, .kind = TableKind::kDynamic};
    const auto table = make_table(context, settings_of_part(whole, shards, ranks.rank()));
    std::vector<int64_t> keys;
    for (int64_t i = 0; i < rows; ++i) keys.push_back(i * 7919);
    if (in_any_order && ranks.rank() == 2)
      std::rotate(keys.begin(), keys.begin() + static_cast<ptrdiff_t>(keys.size() / 3), keys.end());
    if (ranks.rank() != 1) table->import_rows(context, {keys, slice_of(keys, table->settings())});
    export_whole_rows(context, ranks, shards, *table, kBatchRows, 1, [&](const RowBatch& batch) {
      most = std::max(most, static_cast<int64_t>(batch.keys.size()));
      found += static_cast<int64_t>(batch.keys.size());
      for (size_t i = 0; i < batch.weights.size(); ++i)
        wrong +=
            batch.weights[i] != weight_of(batch.keys[i / kDim], static_cast<int64_t>(i % kDim));
    });
  });
  EXPECT_EQ(found, rows);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(most, kBatchRows);
}

EMBLEM_TEST_ON_EVERY_DEVICE(WholeRowsTest);

}  // namespace
}  // namespace emblem
