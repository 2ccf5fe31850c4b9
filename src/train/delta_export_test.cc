#include "train/delta_export.h"

#include <gmock/gmock.h>

#include "core/temp_folder_test.h"
#include "embedding/files/delta_files.h"
#include "embedding/lookup.h"

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
  EXPECT_EQ(deltas.write({}), 7);
  EXPECT_THAT(rows_in(folder.path("deltas")), ElementsAre(2, 3, 0));

  // A run that continues elsewhere never uses a number again.
  EXPECT_EQ(DeltaExport(folder.path("deltas"), {table.get()}, 2).last(), 7);
}

}  // namespace
}  // namespace emblem
