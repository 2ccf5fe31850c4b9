#include "model/lookup/memory_estimate.h"

#include <gmock/gmock.h>

#include "config/load/load.h"
#include "embedding/parts.h"
#include "emblem/error.h"
#include "model/check/check.h"
#include "model/model.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kMiB = int64_t{1} << 20;

TableSettings table(const std::string& name, int64_t rows, TableKind kind = TableKind::kStatic) {
  return {.name = name, .dim = 4, .kind = kind, .capacity = rows, .rule = AdaGrad{}};
}

TEST(TableMemory, StaticTablesThatDoNotFitAreRefusedTogether) {
  // Rows of 32 bytes: 4 weights and their sums of squares.
  const std::vector<TableSettings> tables = {table("small", 32 << 10), table("large", 96 << 10)};
  EXPECT_NO_THROW(require_table_memory({}, tables, 4 * kMiB));
  EXPECT_THAT([&] { require_table_memory({}, tables, 4 * kMiB - 1); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("the static tables need 4.00 MiB"),
                        HasSubstr("the largest is large, 98304 rows of 32 bytes, 3.00 MiB"),
                        HasSubstr("dynamicemb"), HasSubstr("vocab_file"))));
}

TEST(TableMemory, DynamicTablesAndTablesOfGpusAreNotCounted) {
  const std::vector<TableSettings> dynamic = {table("grows", 1 << 30, TableKind::kDynamic)};
  EXPECT_NO_THROW(require_table_memory({}, dynamic, 1));
  const std::vector<TableSettings> fixed = {table("fixed", 1 << 30)};
  EXPECT_NO_THROW(require_table_memory(Context{.device = Device::kCuda}, fixed, 1));
}

TEST(TableMemory, TablesWithAGpuCacheAreRefusedTogether) {
  const Context gpu{.device = Device::kCuda};
  std::vector<TableSettings> tables = {table("fixed", 32 << 10),
                                       table("grows", 96 << 10, TableKind::kDynamic),
                                       table("on_the_gpu", 1 << 30)};
  tables[0].placement = Placement::kCache;
  tables[1].placement = Placement::kHost;
  EXPECT_NO_THROW(require_table_memory(gpu, tables, 4 * kMiB));
  EXPECT_THAT(
      [&] { require_table_memory(gpu, tables, 4 * kMiB - 1); },
      ThrowsMessage<Error>(AllOf(
          HasSubstr("the tables with a cache on the GPU need 4.00 MiB of host memory"),
          HasSubstr("the largest is grows, 98304 rows of 32 bytes"), HasSubstr("max_capacity"))));
}

TEST(TableMemory, ARankCountsItsRows) {
  std::vector<TableSettings> tables = {table("shared", 64 << 10)};
  tables[0].held = part_range_of(0, 2);
  EXPECT_NO_THROW(require_table_memory({}, tables, kMiB + kMiB / 8));
  EXPECT_THROW(require_table_memory({}, tables, kMiB - kMiB / 8), Error);
}

TEST(TableMemory, OtherRanksOfTheHostAreCounted) {
  const std::vector<TableSettings> tables = {table("own", 32 << 10)};  // 1 MiB
  EXPECT_NO_THROW(require_table_memory({}, tables, 4 * kMiB, 3 * kMiB));
  EXPECT_THAT(
      [&] { require_table_memory({}, tables, 4 * kMiB, 3 * kMiB + 1); },
      ThrowsMessage<Error>(HasSubstr("the static tables need 1.00 MiB, those of other ranks on "
                                     "this host 3.00 MiB, but only 4.00 MiB are available")));
  const std::vector<TableSettings> dynamic = {table("grows", 1 << 30, TableKind::kDynamic)};
  EXPECT_NO_THROW(require_table_memory({}, dynamic, 4 * kMiB, 5 * kMiB));  // it takes nothing
}

// More than addresses reach, so that nothing is taken where it is not refused.
TEST(TableMemory, ATableLargerThanTheMachineIsRefusedByName) {
  const PipelineConfig config = parse_pipeline(R"(
    train_config { num_epochs: 1 sparse_optimizer { sgd_optimizer {} } dense_optimizer { sgd_optimizer {} } }
    data_config { dataset_type: RawDataset fg_mode: FG_DAG }
    feature_configs { id_feature { feature_name: "c" num_buckets: 4000000000 embedding_dim: 65536 } }
    model_config { feature_groups { group_name: "deep" feature_names: "c" } dnn { deep { hidden_units: 2 } } })",
                                               "test.config");
  check_pipeline(config);
  const FeatureLayout layout = layout_of(config);
  for (const ModelUse use : {ModelUse::kTraining, ModelUse::kEvaluation}) {
    EXPECT_THAT([&] { Model model({}, config, layout, 2, {}, use); },
                ThrowsMessage<Error>(AllOf(HasSubstr("out of memory: the static tables need"),
                                           HasSubstr("the largest is c_emb"))));
  }
}

}  // namespace
}  // namespace emblem
