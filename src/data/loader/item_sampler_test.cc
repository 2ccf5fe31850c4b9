#include "data/loader/item_sampler.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "core/math/random.h"
#include "data/test_data.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int kItems = 40;

// An item's attributes follow from its id: so rows and sampled items can be compared.
std::string cate_of(int item) { return cat("c", item % 5); }
int price_of(int item) { return item * 10; }
double weight_of(int item) { return item % 4; }  // some are never drawn

class ItemSamplerTest : public testing::Test {
 protected:
  ItemSamplerTest() {
    std::string items = "id:int64\tweight:float\tattrs:string\n",
                rows = "clk,user,item,cate,price\n";
    for (int i = 0; i < kItems; ++i)
      items += cat(i, "\t", weight_of(i), "\t", i, ":", cate_of(i), ":", price_of(i), "\n");
    for (int row = 0; row < 200; ++row) {
      const int item = (row * 7 + row / 40) % kItems;
      rows += cat("1,", row % 11, ",", item, ",", cate_of(item), ",", price_of(item), "\n");
    }
    folder_.write("items.txt", items);
    folder_.write("rows.csv", rows);
  }

  std::string text(const std::string& file = "items.txt", int negatives = 30,
                   const std::string& more = "") const {
    return cat(
        R"(data_config { dataset_type: CsvDataset with_header: true fg_mode: FG_DAG
        label_fields: "clk" negative_sampler { input_path: ")",
        folder_.path(file), R"(" num_sample: )", negatives, R"( num_eval_sample: 7
          attr_fields: "item" attr_fields: "cate" attr_fields: "price" item_id_field: "item" } }
      feature_configs { id_feature { feature_name: "user" num_buckets: 20 embedding_dim: 4 } }
      feature_configs { id_feature { feature_name: "item" num_buckets: 100 embedding_dim: 4 } }
      feature_configs { raw_feature { feature_name: "price" normalizer: "method=minmax,min=0,max=400" } }
      feature_configs { raw_feature { feature_name: "who" expression: "user:user" } }
      feature_configs { id_feature { feature_name: "cate" hash_bucket_size: 1000 embedding_dim: 4 } }
      )",
        more,
        R"(model_config { feature_groups { group_name: "u" feature_names: "user" feature_names: "who" }
        feature_groups { group_name: "i" feature_names: "item" feature_names: "price" feature_names: "cate" }
        dssm { user_tower { input: "u" } item_tower { input: "i" } } })");
  }

  LoaderOptions options(LabelCheck labels = LabelCheck::kByKind) const {
    LoaderOptions options;
    options.input = folder_.path("rows.csv");
    options.batch_size = 16;
    options.shuffle = true;
    options.shuffle_rows = 64;
    options.epochs = 2;
    options.label_check = labels;
    return options;
  }

  std::vector<Batch> read(const LoaderOptions& options, const std::string& pipeline) const {
    const TestPipeline of(pipeline);
    Loader loader(of.config.data_config(), of.features, options);
    std::vector<Batch> batches;
    for (Batch batch; loader.next(batch);) batches.push_back(batch);
    return batches;
  }

  TempFolder folder_;
};

// Positions in Batch::sparse.
enum { kUser, kItem, kCate };

TEST_F(ItemSamplerTest, ItemsOfABatchAreThoseOfItsRowsAndThenSampledOnes) {
  size_t sampled = 0, sampled_own = 0;
  for (const Batch& batch : read(options(), text())) {
    const auto rows = static_cast<size_t>(batch.rows), items = rows + 30;
    EXPECT_EQ(batch.sparse[kUser].keys.size(), rows);
    EXPECT_EQ(batch.dense.size(), rows);
    ASSERT_EQ(batch.sparse[kItem].keys.size(), items);
    ASSERT_EQ(batch.sequences.size(), 1u);
    ASSERT_EQ(batch.sequences[0].elements(), static_cast<int64_t>(items));
    ASSERT_EQ(batch.sequences[0].numbers.size(), items);
    for (size_t row = 0; row < rows; ++row) {
      EXPECT_EQ(batch.sequences[0].offsets[row], static_cast<int32_t>(row));
      EXPECT_EQ(batch.dense[row], static_cast<float>(batch.sparse[kUser].keys[row]));
    }
    std::map<int64_t, int64_t> cates;  // by key of the item
    const std::set<int64_t> own(batch.sparse[kItem].keys.begin(),
                                batch.sparse[kItem].keys.begin() + batch.rows);
    for (size_t i = 0; i < items; ++i) {
      const int64_t item = batch.sparse[kItem].keys[i], cate = batch.sparse[kCate].keys[i];
      EXPECT_FLOAT_EQ(batch.sequences[0].numbers[i], static_cast<float>(price_of(item)) / 400.0f);
      EXPECT_EQ(cates.emplace(item % 5, cate).first->second, cate);
      if (i < rows) continue;
      ++sampled;
      sampled_own += own.contains(item) ? 1 : 0;
    }
    EXPECT_EQ(batch.sparse[kItem].sequence, 0);
    EXPECT_EQ(batch.sparse[kUser].sequence, -1);
  }
  // Two fifths of the items are a batch's own: they are drawn again, but not without end.
  EXPECT_LT(sampled_own, sampled / 10);
}

TEST_F(ItemSamplerTest, ABatchDependsOnItsPlaceAlone) {
  const std::vector<Batch> all = read(options(), text());
  ASSERT_GT(all.size(), 20u);
  for (const size_t at : {size_t{0}, size_t{5}, size_t{12}, all.size() - 2}) {
    LoaderOptions later = options();
    later.start = all[at].next;
    later.workers = 3;
    const std::vector<Batch> rest = read(later, text());
    ASSERT_EQ(rest.size(), all.size() - at - 1);
    for (size_t i = 0; i < rest.size(); ++i)
      EXPECT_EQ(describe(rest[i]), describe(all[at + 1 + i])) << at << " + " << i;
  }
  LoaderOptions other = options();
  other.stream = 1;
  other.streams = 2;
  EXPECT_NE(read(other, text())[0].sparse[kItem].keys, all[0].sparse[kItem].keys);
}

TEST_F(ItemSamplerTest, PredictionsHaveNoNegativesAndEvaluationsTheirNumber) {
  LoaderOptions predicting = options(LabelCheck::kIgnore);
  for (const Batch& batch : read(predicting, text("no_such_file.txt")))
    EXPECT_EQ(batch.sequences[0].elements(), batch.rows);
  TestPipeline of(text());
  sample_for_evaluation(of.config.mutable_data_config());
  Loader loader(of.config.data_config(), of.features, options());
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  EXPECT_EQ(batch.sequences[0].elements(), batch.rows + 7);
}

TEST(WeightedDraw, ChoosesByWeight) {
  const std::vector<double> weights = {0, 3, 0.5, 1, 0, 5.5, 2};
  const WeightedDraw draw(weights);
  Random random{.seed = 3};
  constexpr int kDraws = 200'000;
  std::vector<int> drawn(weights.size());
  for (int i = 0; i < kDraws; ++i) ++drawn[draw(random)];
  for (size_t i = 0; i < weights.size(); ++i) {
    const double chance = weights[i] / 12.0, deviation = std::sqrt(kDraws * chance * (1 - chance));
    EXPECT_NEAR(drawn[i], kDraws * chance, 4.5 * deviation) << i;
  }
}

TEST_F(ItemSamplerTest, BadFilesAreNamedWithTheirLine) {
  const auto refused = [&](const std::string& content) {
    folder_.write("bad.txt", content);
    return [this] { read(options(), text("bad.txt")); };
  };
  const std::string header = "id:int64\tweight:float\tattrs:string\n";
  EXPECT_THAT(refused("1\t1\t1:a:2\n"),
              ThrowsMessage<Error>(HasSubstr("line 1: a field of the first line is \"1\"")));
  EXPECT_THAT(refused(header + "1\t1\t1:a:2\n2\t1\t2:a\n"),
              ThrowsMessage<Error>(HasSubstr("line 3: the item has 2 attributes, expected 3")));
  EXPECT_THAT(refused(header + "1\t-1\t1:a:2\n"),
              ThrowsMessage<Error>(HasSubstr("line 2: the weight is \"-1\", expected a number")));
  EXPECT_THAT(refused(header + "\t1\t1:a:2\n"),
              ThrowsMessage<Error>(HasSubstr("line 2: the line has no id")));
  EXPECT_THAT(refused(header + "1\t1\t1:a:cheap\n"),
              ThrowsMessage<Error>(HasSubstr("bad.txt, line 2: price: ")));
  EXPECT_THAT(refused(header + "1\t1\t500:a:2\n"),
              ThrowsMessage<Error>(HasSubstr("bad.txt, row 1")));
  EXPECT_THAT(refused(header + "1\t0\t1:a:2\n"),
              ThrowsMessage<Error>(HasSubstr("has no items to sample from")));
  EXPECT_THAT([&] { read(options(), text("no_such_file.txt")); },
              ThrowsMessage<Error>(HasSubstr("no_such_file.txt")));
}

TEST_F(ItemSamplerTest, SettingsThatDoNotFitAreRefused) {
  const auto replaced = [](std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
  };
  const auto refused = [&](const std::string& from, const std::string& to) {
    return [text = replaced(text(), from, to)] { TestPipeline{text}; };
  };
  EXPECT_THAT(refused("num_sample: 30", "num_sample: 0"),
              ThrowsMessage<Error>(HasSubstr("num_sample is 0, expected at least 1")));
  EXPECT_THAT(refused("item_id_field: \"item\"", "item_id_field: \"user\""),
              ThrowsMessage<Error>(HasSubstr("is \"user\", which attr_fields do not name")));
  EXPECT_THAT(refused("item_id_field: \"item\"", "item_id_field: \"price\""),
              ThrowsMessage<Error>(HasSubstr("which no categorical feature reads")));
  EXPECT_THAT(
      [&] {
        TestPipeline(text("items.txt", 3, R"(feature_configs { combo_feature {
                  feature_name: "both" expression: "user:user" expression: "item:cate"
                  hash_bucket_size: 10 embedding_dim: 4 } })"));
      },
      ThrowsMessage<Error>(HasSubstr("feature \"both\" reads \"user\" and \"cate\"")));
}

// Pearson's statistic of all draws, in batches that have the same items, by the chance of each
// item: its own weight, times one for each draw that may follow an item of the batch.
TEST_F(ItemSamplerTest, ItemsAreDrawnByWeightAndThoseOfTheBatchThreeTimesAtMost) {
  constexpr int kBatches = 200, kNegatives = 400;
  const std::set<int> own = {3, 5, 6, 7, 11, 13, 14, 15, 18, 22, 23, 26, 27, 31, 35, 39};
  std::string rows = "clk,user,item,cate,price\n";
  for (int batch = 0; batch < kBatches; ++batch)
    for (const int item : own)
      rows += cat("1,1,", item, ",", cate_of(item), ",", price_of(item), "\n");
  LoaderOptions in_order = options();
  in_order.input = folder_.write("same.csv", rows);
  in_order.shuffle = false;
  in_order.epochs = 1;
  in_order.seed = 5;
  double sum = 0, of_batch = 0;
  for (int item = 0; item < kItems; ++item) {
    sum += weight_of(item);
    of_batch += own.contains(item) ? weight_of(item) : 0;
  }
  const double q = of_batch / sum;

  std::vector<int> drawn(kItems);
  for (const Batch& batch : read(in_order, text("items.txt", kNegatives)))
    for (size_t i = own.size(); i < batch.sparse[kItem].keys.size(); ++i)
      ++drawn[static_cast<size_t>(batch.sparse[kItem].keys[i])];
  double statistic = 0;
  int freedom = -1;
  for (int item = 0; item < kItems; ++item) {
    const double again = own.contains(item) ? q * q * q : 1 + q + q * q + q * q * q;
    const double expected = kBatches * kNegatives * weight_of(item) / sum * again;
    const int actual = drawn[static_cast<size_t>(item)];
    if (expected == 0) {
      EXPECT_EQ(actual, 0) << item;
      continue;
    }
    statistic += (actual - expected) * (actual - expected) / expected;
    ++freedom;
  }
  EXPECT_EQ(freedom, 29);
  EXPECT_LT(statistic, 58.3);  // one of a thousand seeds is above it
  EXPECT_GT(statistic, 9.2);   // or below this one
}

}  // namespace
}  // namespace emblem
