// Memory that is not there for the items of a batch: the next batch gets them.
#include "core/memory/failing_new_test.h"
#include "data/loader/item_sampler.h"
#include "data/test_data.h"

namespace emblem {
namespace {

TEST(ItemSamplerMemory, WhatFailsCanBeRepeated) {
  const TempFolder folder;
  std::string items = "id:int64\tweight:float\tattrs:string\n", rows = "clk,user,item,price\n";
  for (int i = 0; i < 30; ++i) items += cat(i, "\t1\t", i, ":", 10 * i, "\n");
  for (int row = 0; row < 40; ++row)
    rows += cat("1,", row % 7, ",", row % 30, ",", 10 * (row % 30), "\n");
  folder.write("items.txt", items);
  folder.write("rows.csv", rows);
  const TestPipeline pipeline(cat(R"(data_config { dataset_type: CsvDataset with_header: true
        fg_mode: FG_DAG label_fields: "clk" negative_sampler { num_sample: 12 input_path: ")",
                                  folder.path("items.txt"), R"("
          attr_fields: "item" attr_fields: "price" item_id_field: "item" } }
      feature_configs { id_feature { feature_name: "user" num_buckets: 20 embedding_dim: 4 } }
      feature_configs { id_feature { feature_name: "item" num_buckets: 30 embedding_dim: 4 } }
      feature_configs { raw_feature { feature_name: "price" } }
      model_config { feature_groups { group_name: "u" feature_names: "user" }
        feature_groups { group_name: "i" feature_names: "item" feature_names: "price" }
        dssm { user_tower { input: "u" } item_tower { input: "i" } } })"));
  LoaderOptions options;
  options.input = folder.path("rows.csv");
  options.batch_size = 16;
  const config::DataConfig& data = pipeline.config.data_config();
  Batch plain, expected;
  {
    config::DataConfig without = data;
    without.clear_negative_sampler();
    Loader loader(without, layout_of_rows(pipeline.features), options);
    ASSERT_TRUE(loader.next(plain));
    Loader sampling(data, pipeline.features, options);
    ASSERT_TRUE(sampling.next(expected));
  }
  const auto with_items = [&](const ItemSampler& sampler) {
    Batch batch = plain;
    sampler.add_items(batch);
    return describe(batch);
  };

  const int64_t reading = fail_each_allocation(
      Failing::kHeapToo, [] {},
      [&] { return std::make_unique<ItemSampler>(data, pipeline.features, options); },
      [&](const std::optional<std::unique_ptr<ItemSampler>>& made) {
        const ItemSampler again(data, pipeline.features, options);
        EXPECT_EQ(with_items(made ? **made : again), describe(expected));
      });
  const ItemSampler sampler(data, pipeline.features, options);
  Batch batch;
  const int64_t sampling = fail_each_allocation(
      Failing::kHeapToo, [&] { batch = plain; },
      [&] {
        sampler.add_items(batch);
        return true;
      },
      [&](const std::optional<bool>& added) {
        EXPECT_EQ(added ? describe(batch) : with_items(sampler), describe(expected));
      });
  EXPECT_GT(reading, 0);
  EXPECT_GT(sampling, 5);
}

}  // namespace
}  // namespace emblem
