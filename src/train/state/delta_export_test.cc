#include "train/state/delta_export.h"

#include <gmock/gmock.h>

#include "checkpoint/checkpoint.h"
#include "comm/threads/threads.h"
#include "core/files/file.h"
#include "core/files/temp_folder_test.h"
#include "embedding/files/delta_files.h"
#include "embedding/lookup.h"
#include "shard/sharded_lookup.h"

namespace emblem {
namespace {

using testing::ElementsAre;

// The rows of the deltas' table, by key.
std::vector<int64_t> rows_in(const std::string& folder) {
  std::vector<int64_t> rows;
  for (const DeltaFolder& delta : list_deltas(folder)) {
    const DeltaManifest manifest = read_delta_manifest(delta);
    rows.push_back(manifest.tables.empty() ? 0 : manifest.tables[0].rows);
  }
  return rows;
}

TEST(DeltaExportTest, HoldsTheRowsThatWereTouchedSinceTheLastOne) {
  const TempFolder folder;
  const auto table = make_table({}, {.name = "user", .dim = 2, .kind = TableKind::kDynamic});
  const LookupFeature feature{table.get(), Pooling::kSum};
  const auto lookup = make_lookup({}, {&feature, 1});
  const auto touch = [&](const std::vector<int64_t>& keys) {
    const FeatureKeys batch{{keys.data(), static_cast<int64_t>(keys.size()), 1}, {}, {}};
    std::vector<float> out(keys.size() * 2);
    const View<float> view{out.data(), static_cast<int64_t>(keys.size()), 2};
    lookup->forward({}, {&batch, 1}, Phase::kTrain, view);
    lookup->backward({}, view, 1.0f, 0.1f, 1);
  };
  touch({1, 2, 3});
  DeltaExport deltas(folder.path("deltas"), {table.get()}, 4);
  touch({2, 5});
  EXPECT_EQ(deltas.write({}), 5);
  touch({7, 7, 8, 9});
  EXPECT_EQ(deltas.write({}), 6);
  EXPECT_EQ(
      deltas.write({}, {.stream_offsets = {17, 4}, .step_begin_unix_ms = 5, .step_end_unix_ms = 6}),
      7);
  const DeltaManifest last = read_delta_manifest(list_deltas(folder.path("deltas")).back());
  EXPECT_THAT(last.origin.stream_offsets, ElementsAre(17, 4));
  EXPECT_EQ(last.origin.step_begin_unix_ms, 5);
  EXPECT_EQ(last.origin.step_end_unix_ms, 6);
  EXPECT_THAT(rows_in(folder.path("deltas")), ElementsAre(2, 3, 0));

  // A run that continues elsewhere never uses a number again.
  EXPECT_EQ(DeltaExport(folder.path("deltas"), {table.get()}, 2).last(), 7);
}

TEST(DeltaExportTest, RankZeroWritesTheRowsOfAllRanks) {
  const TempFolder folder;
  run_thread_ranks(3, [&](Communicator& ranks) {
    const World world{.ranks = &ranks, .shards = 3};
    const auto table = make_table({}, {.name = "user", .dim = 2, .kind = TableKind::kDynamic});
    const int64_t first = 10 * ranks.rank();
    DeltaExport deltas(folder.path("deltas"), {table.get()}, 0, world);
    const std::vector<int64_t> keys = {first, first + 1};
    const std::vector<float> weights = {1, 2, 3, 4};
    if (ranks.rank() != 1) table->import_rows({}, {keys, weights});
    EXPECT_EQ(deltas.write({}), 1);
    EXPECT_EQ(deltas.write({}), 2);
  });
  EXPECT_THAT(rows_in(folder.path("deltas")), ElementsAre(4, 0));
}

TEST(DeltaExportTest, ColumnsOfSeveralRanksAreWholeRows) {
  const TempFolder folder;
  run_thread_ranks(3, [&](Communicator& ranks) {
    const ShardPlan plan{.ranks = 3, .tables = {by_columns("user", {2, 1}, 3)}};
    const World world{.ranks = &ranks, .shards = 3, .plan = &plan};
    const TableSettings whole{.name = "user", .dim = 3, .kind = TableKind::kDynamic};
    const auto table = make_table({}, settings_of_part(whole, plan.tables[0], ranks.rank()));
    DeltaExport deltas(folder.path("deltas"), {table.get()}, 0, world);
    const std::vector<int64_t> keys = {5, 7};
    if (ranks.rank() == 2) table->import_rows({}, {keys, std::vector<float>{1, 4}});
    if (ranks.rank() == 1) table->import_rows({}, {keys, std::vector<float>{2, 3, 5, 6}});
    EXPECT_EQ(deltas.write({}), 1);
    EXPECT_EQ(deltas.write({}), 2);
  });
  EXPECT_THAT(rows_in(folder.path("deltas")), ElementsAre(2, 0));
  const std::string first = list_deltas(folder.path("deltas"))[0].path;
  const MappedFile vectors(first + "/user/emb_vector");
  ASSERT_EQ(vectors.bytes().size(), 6 * sizeof(float));
  const auto* values = reinterpret_cast<const float*>(vectors.bytes().data());
  EXPECT_THAT(std::vector<float>(values, values + 6), ElementsAre(1, 2, 3, 4, 5, 6));
}

class OldDeltasTest : public testing::Test {
 protected:
  // Deltas up to that number, and a checkpoint that contains them.
  void save(int64_t step, int64_t deltas) {
    while (export_.last() < deltas) export_.write({});
    CheckpointWriter writer(folder_.path(), step);
    Manifest manifest;
    manifest.model = "dlrm";
    manifest.deltas = deltas;
    writer.commit(manifest);
  }
  std::vector<int64_t> left() const {
    std::vector<int64_t> numbers;
    for (const DeltaFolder& delta : list_deltas(folder_.path("deltas")))
      numbers.push_back(delta.sequence);
    return numbers;
  }
  void remove_old(uint32_t keep_deltas, uint32_t keep_checkpoints) {
    config::TrainConfig config;
    config.set_keep_delta_max(keep_deltas);
    config.set_keep_checkpoint_max(keep_checkpoints);
    export_.remove_old(folder_.path(), config);
  }

  const TempFolder folder_;
  const std::unique_ptr<Table> table_ =
      make_table({}, {.name = "user", .dim = 2, .kind = TableKind::kDynamic});
  DeltaExport export_{folder_.path("deltas"), {table_.get()}, 0};
};

TEST_F(OldDeltasTest, AllThatAKeptCheckpointNeedsStay) {
  save(100, 3);
  save(200, 6);
  save(300, 8);
  remove_old(2, 3);
  EXPECT_THAT(left(), ElementsAre(4, 5, 6, 7, 8));
  prune_checkpoints(folder_.path(), 2, {});
  remove_old(2, 2);
  EXPECT_THAT(left(), ElementsAre(7, 8));
}

TEST_F(OldDeltasTest, TheNewestStayForServersThatAreLate) {
  save(100, 3);
  save(200, 6);
  prune_checkpoints(folder_.path(), 1, {});
  remove_old(4, 1);
  EXPECT_THAT(left(), ElementsAre(3, 4, 5, 6));
  remove_old(0, 1);
  EXPECT_THAT(left(), ElementsAre(3, 4, 5, 6));
}

TEST_F(OldDeltasTest, WhereAllCheckpointsAreKeptTheNewestDecides) {
  save(100, 3);
  save(200, 6);
  export_.write({});
  remove_old(1, 0);
  EXPECT_THAT(left(), ElementsAre(7));
  EXPECT_EQ(config::TrainConfig().keep_delta_max(), 100u);
}

TEST_F(OldDeltasTest, WithoutACheckpointAllStay) {
  for (int i = 0; i < 3; ++i) export_.write({});
  remove_old(1, 1);
  EXPECT_THAT(left(), ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace emblem
