#include "bench/train/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/feature/features.h"
#include "config/load/load.h"

namespace emblem {
namespace {

using testing::Field;
using testing::UnorderedElementsAre;

// Features a and b share a table; a also has a wide table.
constexpr char kFloorPipeline[] = R"(
train_input_path: "unused"
eval_input_path: "unused"
model_dir: "unused"
train_config { sparse_optimizer { adagrad_optimizer { lr: 0.1 } } dense_optimizer { adam_optimizer { lr: 0.1 } } num_epochs: 1 }
data_config { dataset_type: CsvDataset fg_mode: FG_DAG batch_size: 2 label_fields: "label" }
feature_configs { id_feature { feature_name: "a" embedding_name: "t" embedding_dim: 8 num_buckets: 10 } }
feature_configs { id_feature { feature_name: "b" embedding_name: "t" embedding_dim: 8 num_buckets: 10 } }
model_config {
  feature_groups { group_name: "wide" group_type: WIDE feature_names: "a" }
  feature_groups { group_name: "deep" feature_names: "a" feature_names: "b" }
  wide_and_deep { deep { hidden_units: [4] } }
}
)";

TEST(TrainFloor, CountsEveryRowOfEveryTableOnce) {
  const Context context;
  const config::PipelineConfig config = parse_pipeline(kFloorPipeline, "test", {});
  const FeatureLayout layout = layout_of(config);
  const Model model(context, config, layout, 2);
  const std::vector<int64_t> a = {7, 7}, b = {1, 2, 2, 7};
  const std::vector<int32_t> offsets = {0, 2, 4};
  const std::vector<FeatureKeys> sparse = {
      {{a.data(), 2, 1, Device::kCpu}, {}, {}},
      {{b.data(), 4, 1, Device::kCpu}, {offsets.data(), 3, 1, Device::kCpu}, {}}};
  ModelBatch batch;
  batch.rows = 2;
  batch.sparse = sparse;
  const std::vector<TableWork> work = table_work(context, model, batch);
  const auto is = [](int64_t dim, double bags, double lookups, double rows) {
    return testing::AllOf(Field(&TableWork::dim, dim), Field(&TableWork::state_floats, dim),
                          Field(&TableWork::bags, bags), Field(&TableWork::lookups, lookups),
                          Field(&TableWork::unique_rows, rows));
  };
  EXPECT_THAT(work, UnorderedElementsAre(is(4, 2, 2, 1), is(8, 4, 6, 3)));
  EXPECT_EQ(unique_rows(work), 4);
}

TEST(TrainFloor, ARowIsReadTwiceAndWrittenOnceAndAGradientWrittenAndRead) {
  const TableWork sgd{.dim = 8, .bags = 10, .lookups = 10, .unique_rows = 3};
  EXPECT_EQ(least_table_bytes({&sgd, 1}, DType::kBf16), 3 * 3 * 32 + 2 * 10 * 16 + 80);
  const TableWork adam{.dim = 8, .state_floats = 16, .bags = 10, .lookups = 10, .unique_rows = 3};
  const double bytes = 3 * 3 * 32 + 2 * 3 * 64 + 2 * 10 * 32 + 80;
  EXPECT_EQ(least_table_bytes({&adam, 1}, DType::kF32), bytes);
  EXPECT_EQ(least_table_bytes(std::vector{adam, adam}, DType::kF32), 2 * bytes);
}

}  // namespace
}  // namespace emblem
