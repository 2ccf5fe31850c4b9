#include "data/loader/sampling/tree_sampler.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <set>

#include "config/feature/tree_items.h"
#include "data/test_data.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int kTreeItems = 11;

// An item's attributes follow from its id: so rows and nodes can be compared.
std::string brand_of(int64_t node) { return cat("b", node % 5); }
int64_t price_of_node(int64_t node) { return node * 10; }

class TreeSamplerTest : public testing::Test {
 protected:
  TreeSamplerTest() {
    std::vector<int64_t> ids;
    for (int i = 0; i < kTreeItems; ++i) ids.push_back(i);
    tree_ = ItemTree::of_order(ids, 2);  // levels of 1, 2, 4, 8 and 11 nodes
    std::vector<std::string> brands, prices;
    for (int32_t node = 0; node < tree_.size(); ++node) {
      node_of_[tree_.id(node)] = node;
      brands.push_back(brand_of(tree_.id(node)));
      prices.push_back(cat(price_of_node(tree_.id(node))));
    }
    write_tree(folder_.path(""), tree_, {brands, prices}, ',');
    std::string rows = "clk,weight,user,history,item,brand,price\n";
    for (int row = 0; row < 60; ++row) {
      const int item = (row * 7 + row / 20) % kTreeItems;
      rows += cat(row % 4 == 3 ? 0 : 1, ",", 1 + row % 3, ",", row, ",", row % 5, ";", row % 7, ",",
                  item, ",", brand_of(item), ",", price_of_node(item), "\n");
    }
    folder_.write("rows.csv", rows);
  }

  std::string text(const std::string& samples = "0 1 2 3 5", const std::string& more = "") const {
    std::string levels;
    for (const std::string& count : split(samples, ' ')) levels += " layer_num_sample: " + count;
    return cat(
        R"(data_config { dataset_type: CsvDataset with_header: true fg_mode: FG_DAG
        label_fields: "clk" sample_weight_fields: "weight" tdm_sampler { item_input_path: ")",
        folder_.path(kNodeTable), R"(" edge_input_path: ")", folder_.path(kEdgeTable),
        R"(" attr_fields: "brand" attr_fields: "price" item_id_field: "item" attr_delimiter: ",")",
        levels, " ", more, R"( } }
      feature_configs { id_feature { feature_name: "user" num_buckets: 100 embedding_dim: 4 } }
      feature_configs { raw_feature { feature_name: "price" } }
      feature_configs { id_feature { feature_name: "item" num_buckets: 40 embedding_dim: 4 } }
      feature_configs { raw_feature { feature_name: "who" expression: "user:user" } }
      feature_configs { id_feature { feature_name: "brand" hash_bucket_size: 1000 embedding_dim: 4 } }
      feature_configs { sequence_id_feature { feature_name: "history" sequence_length: 5
        sequence_delim: ";" num_buckets: 40 embedding_dim: 4 } }
      model_config { tdm {} })");
  }

  LoaderOptions options() const {
    LoaderOptions options;
    options.input = folder_.path("rows.csv");
    options.batch_size = 8;
    options.shuffle = true;
    options.shuffle_rows = 32;
    options.epochs = 2;
    return options;
  }

  std::vector<Batch> read(const LoaderOptions& options, const std::string& pipeline) const {
    const TestPipeline of(pipeline);
    Loader loader(of.config.data_config(), of.features, options);
    std::vector<Batch> batches;
    for (Batch batch; loader.next(batch);) batches.push_back(batch);
    return batches;
  }

  int64_t level_of(int32_t node) const {
    int64_t level = 0;
    for (; node > 0; node = tree_.parent(node)) ++level;
    return level;
  }

  // From the root's child down to the item.
  std::vector<int32_t> path_of(int64_t item) const {
    std::vector<int32_t> path;
    for (int32_t node = node_of_.at(item); node > 0; node = tree_.parent(node))
      path.insert(path.begin(), node);
    return path;
  }

  TempFolder folder_;
  ItemTree tree_;
  std::map<int64_t, int32_t> node_of_;  // by id
};

// Positions in Batch::sparse, and columns of Batch::dense.
enum { kUserKeys, kNodeKeys, kBrandKeys, kHistoryKeys };
enum { kPriceColumn, kWhoColumn };

TEST_F(TreeSamplerTest, RowsAreFollowedByAncestorsAndThenOtherNodesOfEachLevel) {
  constexpr int64_t kInner = 3, kSamples = 11;
  int64_t rows = 0;
  for (const Batch& batch : read(options(), text())) {
    const int64_t own = batch.rows / (1 + kInner + kSamples);
    rows += own;
    ASSERT_EQ(batch.rows, own * (1 + kInner + kSamples));
    ASSERT_EQ(std::ssize(batch.labels), batch.rows);
    ASSERT_EQ(std::ssize(batch.sample_weights), batch.rows);
    std::map<std::string, int64_t> brand_keys;
    const auto& items = batch.sparse[kNodeKeys].keys;
    for (int64_t row = 0; row < own; ++row) {
      const int64_t user = batch.sparse[kUserKeys].keys[row];
      EXPECT_EQ(batch.labels[row], user % 4 == 3 ? 0.0f : 1.0f);
      const std::vector<int32_t> path = path_of(items[row]);
      std::vector<int64_t> places = {row};
      for (int64_t i = 0; i < kInner; ++i) {
        const int64_t at = own + row * kInner + i;
        EXPECT_EQ(items[at], tree_.id(path[i]));
        EXPECT_EQ(batch.labels[at], 1.0f);
        places.push_back(at);
      }
      std::set<int64_t> seen;
      for (int64_t i = 0; i < kSamples; ++i) {
        const int64_t at = own * (1 + kInner) + row * kSamples + i;
        const int64_t level = i < 1 ? 1 : i < 3 ? 2 : i < 6 ? 3 : 4;
        EXPECT_EQ(level_of(node_of_.at(items[at])), level);
        EXPECT_NE(items[at], tree_.id(path[level - 1]));
        EXPECT_TRUE(seen.insert(items[at]).second) << items[at];
        EXPECT_EQ(batch.labels[at], 0.0f);
        places.push_back(at);
      }
      for (const int64_t at : places) {
        EXPECT_EQ(batch.sparse[kUserKeys].keys[at], user);
        EXPECT_EQ(batch.sample_weights[at], static_cast<float>(1 + user % 3));
        EXPECT_EQ(batch.dense[at * 2 + kWhoColumn], static_cast<float>(user));
        EXPECT_EQ(batch.dense[at * 2 + kPriceColumn], static_cast<float>(price_of_node(items[at])));
        const auto [key, is_new] =
            brand_keys.emplace(brand_of(items[at]), batch.sparse[kBrandKeys].keys[at]);
        EXPECT_EQ(key->second, batch.sparse[kBrandKeys].keys[at]);
        ASSERT_EQ(batch.sequences[0].offsets[at + 1] - batch.sequences[0].offsets[at], 2);
        const int32_t first = batch.sequences[0].offsets[at];
        EXPECT_EQ(batch.sparse[kHistoryKeys].keys[first], user % 5);
        EXPECT_EQ(batch.sparse[kHistoryKeys].keys[first + 1], user % 7);
      }
    }
  }
  EXPECT_EQ(rows, 120);
}

TEST_F(TreeSamplerTest, ABatchDependsOnItsPlaceAlone) {
  const std::string pipeline = text("0 1 2 3 5", "remain_ratio: 0.5");
  const std::vector<Batch> all = read(options(), pipeline);
  ASSERT_EQ(all.size(), 16u);
  for (const size_t at : {size_t{0}, size_t{5}, size_t{9}, all.size() - 2}) {
    LoaderOptions later = options();
    later.start = all[at].next;
    later.workers = 3;
    const std::vector<Batch> rest = read(later, pipeline);
    ASSERT_EQ(rest.size(), all.size() - at - 1);
    for (size_t i = 0; i < rest.size(); ++i)
      EXPECT_EQ(describe(rest[i]) + describe(rest[i].next),
                describe(all[at + 1 + i]) + describe(all[at + 1 + i].next));
  }
  LoaderOptions other = options();
  other.stream = 1;
  other.streams = 2;
  EXPECT_NE(read(other, pipeline)[0].sparse[kNodeKeys].keys, all[0].sparse[kNodeKeys].keys);
}

TEST_F(TreeSamplerTest, NodesOfALevelAreDrawnWithEqualChance) {
  LoaderOptions many = options();
  many.epochs = 150;
  std::map<int64_t, std::map<int64_t, int64_t>> drawn;  // by level and node
  std::map<int64_t, double> expected;                   // by node
  for (const Batch& batch : read(many, text("0 1 2 3 5"))) {
    const int64_t own = batch.rows / 15;
    for (int64_t row = 0; row < own; ++row) {
      const std::vector<int32_t> path = path_of(batch.sparse[kNodeKeys].keys[row]);
      for (int64_t level = 1; level <= 4; ++level) {
        const ItemTree::Nodes nodes = tree_.level(level);
        const double samples = level == 4 ? 5 : static_cast<double>(level);
        for (int32_t node = nodes.begin; node < nodes.end; ++node)
          if (node != path[level - 1]) expected[tree_.id(node)] += samples / (nodes.count() - 1);
      }
    }
    for (int64_t at = own * 4; at < batch.rows; ++at) {
      const int64_t id = batch.sparse[kNodeKeys].keys[at];
      ++drawn[level_of(node_of_.at(id))][id];
    }
  }
  for (const auto& [level, nodes] : drawn)
    for (const auto& [id, count] : nodes)
      EXPECT_NEAR(static_cast<double>(count), expected[id], 4.5 * std::sqrt(expected[id]))
          << "node " << id << " of level " << level;
  EXPECT_EQ(drawn[4].size(), static_cast<size_t>(kTreeItems));
}

TEST_F(TreeSamplerTest, SomeLevelsRemain) {
  struct Case {
    std::string type;
    std::vector<double> share;  // of batches that have each of the three inner levels
  };
  // One of three levels remains: shares are the weights 1 1 1, 1 2 3 and 1/3 1/2 1.
  for (const Case& of :
       {Case{"UNIFORM", {1. / 3, 1. / 3, 1. / 3}}, Case{"ARITHMETIC", {1. / 6, 2. / 6, 3. / 6}},
        Case{"RECIPROCAL", {2. / 11, 3. / 11, 6. / 11}}}) {
    LoaderOptions many = options();
    many.epochs = 200;
    std::vector<int64_t> found(3);
    const std::vector<Batch> batches =
        read(many, text("0 1 2 3 5", cat("remain_ratio: 0.34 probability_type: '", of.type, "'")));
    for (const Batch& batch : batches) {
      std::set<int64_t> levels;
      for (const int64_t id : batch.sparse[kNodeKeys].keys)
        levels.insert(level_of(node_of_.at(id)));
      ASSERT_EQ(levels.size(), 2u);
      ASSERT_EQ(*levels.rbegin(), 4);
      ++found[static_cast<size_t>(*levels.begin() - 1)];
    }
    const auto count = static_cast<double>(batches.size());
    for (size_t i = 0; i < 3; ++i)
      EXPECT_NEAR(static_cast<double>(found[i]) / count, of.share[i],
                  4.5 * std::sqrt(of.share[i] * (1 - of.share[i]) / count))
          << of.type << " level " << i + 1;
  }
}

TEST_F(TreeSamplerTest, PredictionsHaveTheRowsAlone) {
  LoaderOptions predicting = options();
  predicting.label_check = LabelCheck::kIgnore;
  predicting.epochs = 1;
  int64_t rows = 0;
  for (const Batch& batch : read(predicting, text())) rows += batch.rows;
  EXPECT_EQ(rows, 60);
}

TEST_F(TreeSamplerTest, RowsAreCountedWithTheirSamples) {
  const TestPipeline of(text("0 1 2 3 5", "remain_ratio: 0.34"));
  EXPECT_EQ(rows_with_samples(of.config.data_config(), 8), 8 * (1 + 1 + 3 + 5));
  const TestPipeline whole(text());
  EXPECT_EQ(rows_with_samples(whole.config.data_config(), 8), 8 * 15);
  Loader loader(whole.config.data_config(), whole.features, options());
  Batch batch;
  int64_t rows = 0;
  while (loader.next(batch)) rows += batch.rows;
  EXPECT_EQ(loader.expected_rows(), rows);
  EXPECT_EQ(rows, 120 * 15);
  EXPECT_THAT([&] { rows_with_samples(whole.config.data_config(), 200'000'000); },
              ThrowsMessage<Error>(HasSubstr("makes 15 rows of one; use a smaller")));
}

TEST_F(TreeSamplerTest, BadRowsHaveNoNodes) {
  folder_.write("rows.csv",
                "clk,weight,user,history,item,brand,price\n1,1,1,1,3,b3,30\n"
                "1,1,none,1,3,b3,30\n1,1,2,1,4,b4,40\n");
  LoaderOptions blank = options();
  blank.shuffle = false;
  blank.epochs = 1;
  blank.bad_rows = BadRowHandling::kBlank;
  blank.max_bad_rows = 1;
  const std::vector<Batch> batches = read(blank, text());
  ASSERT_EQ(batches.size(), 1u);
  ASSERT_EQ(batches[0].rows, 3 + 2 * 14);
  ASSERT_EQ(batches[0].bad.size(), static_cast<size_t>(batches[0].rows));
  EXPECT_EQ(std::count(batches[0].bad.begin(), batches[0].bad.end(), 1), 1);
  EXPECT_EQ(batches[0].bad[1], 1);
}

TEST_F(TreeSamplerTest, WhatDoesNotFitIsRefused) {
  const auto refused = [&](const std::string& pipeline) {
    return [this, pipeline] { read(options(), pipeline); };
  };
  EXPECT_THAT(refused(text("0 1 2 3")),
              ThrowsMessage<Error>(HasSubstr("layer_num_sample has 4 numbers, but the tree in")));
  EXPECT_THAT(
      refused(text("0 1 2 8 5")),
      ThrowsMessage<Error>(HasSubstr("layer_num_sample is 8 for level 3, which has 7 nodes")));
  EXPECT_THAT(refused(text("1 1 2 3 5")),
              ThrowsMessage<Error>(HasSubstr("layer_num_sample begins with 1, expected 0")));
  EXPECT_THAT(refused(text("0 1 2 3 5", "num_eval_sample: 3")),
              ThrowsMessage<Error>(HasSubstr("num_eval_sample is 3")));
  EXPECT_THAT(refused(text("0 1 2 3 5", "remain_ratio: 1.5")),
              ThrowsMessage<Error>(HasSubstr("remain_ratio is 1.5, expected a share")));
  EXPECT_THAT(refused(text("0 1 2 3 5", "probability_type: 'MANY'")),
              ThrowsMessage<Error>(HasSubstr("probability_type is \"MANY\"")));
  EXPECT_THAT(refused(text("0 1 2 3 5", "attr_fields: 'size'")),
              ThrowsMessage<Error>(HasSubstr("the node has 4 attributes, expected 5: tree_level, "
                                             "item, brand, price, size")));
  const std::string header = "clk,weight,user,history,item,brand,price\n";
  folder_.write("rows.csv", header + "1,1,1,1,20,b3,30\n");
  EXPECT_THAT(refused(text()), ThrowsMessage<Error>(HasSubstr("key 20 of \"item\"")));
  folder_.write("rows.csv", header + "1,1,1,1,,b3,30\n");
  EXPECT_THAT(refused(text()), ThrowsMessage<Error>(HasSubstr("tree")));
}

TEST(DrawDistinct, GivesEachSetWithEqualChance) {
  constexpr int kDraws = 50'000;
  Random random{.seed = 9};
  std::map<std::set<int64_t>, int> found;
  for (int i = 0; i < kDraws; ++i) {
    const std::vector<int64_t> drawn = draw_distinct(random, 3, 6);
    ++found[{drawn.begin(), drawn.end()}];
  }
  EXPECT_EQ(found.size(), 20u);  // of three
  for (const auto& [set, count] : found) {
    EXPECT_EQ(set.size(), 3u);
    EXPECT_NEAR(count, kDraws / 20., 4.5 * std::sqrt(kDraws / 20.));
  }
  const std::vector<int64_t> all = draw_distinct(random, 6, 6);
  EXPECT_THAT((std::set<int64_t>{all.begin(), all.end()}), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_TRUE(draw_distinct(random, 0, 0).empty());
}

}  // namespace
}  // namespace emblem
