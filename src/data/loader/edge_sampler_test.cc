// Samplers that read edges of users: what they draw, against plain oracles, and what they refuse.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "data/items/edge_lists.h"
#include "data/loader/item_sampler.h"
#include "data/source/objects/memory_store_test.h"
#include "data/source/remote_storage.h"
#include "data/test_data.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

constexpr int kEdgeItems = 40, kEdgeUsers = 10, kEdgeRows = 12, kEdgeDraws = 30;

using Edges = std::set<std::pair<int, int>>;  // user, item

// Items 0 to 29 are destinations of positive edges, user 9 has no edges, and user 0 more hard ones
// than a row may have.
Edges positive_edges() {
  Edges edges;
  for (int user = 0; user < 9; ++user)
    for (int i = 0; i < 4; ++i) edges.emplace(user, (user * 3 + i * 7) % 30);
  for (int item = 0; item < 30; ++item) edges.emplace(item % 9, item);
  return edges;
}

Edges hard_edges() {
  Edges edges;
  for (int item = 5; item < 11; ++item) edges.emplace(0, item);
  for (int user = 1; user < 9; ++user)
    for (int i = 0; i < user % 4; ++i) edges.emplace(user, (user * 5 + i) % kEdgeItems);
  return edges;
}

std::string edge_text(const Edges& edges) {
  std::string text = "userid:int64\titemid:int64\tweight:float\n";
  for (const auto& [user, item] : edges) text += cat("u", user, "\ti", item, "\t1\n");
  return text;
}

class EdgeSamplerTest : public testing::Test {
 protected:
  EdgeSamplerTest() {
    std::string items = "id:int64\tweight:float\tattrs:string\n", rows = "clk,user,item,cate\n",
                users = "id:int64\tweight:float\n";
    for (int i = 0; i < kEdgeItems; ++i)
      items += cat("i", i, "\t", 1 + i % 3, "\t", "i", i, ":c", i % 5, "\n");
    for (int user = 0; user < kEdgeUsers; ++user) users += cat("u", user, "\t1\n");
    for (int row = 0; row < 3000; ++row) {
      const int item = row * 7 % kEdgeItems;
      rows += cat("1,u", (row + row / 30) % kEdgeUsers, ",i", item, ",c", item % 5, "\n");
    }
    folder_.write("items.txt", items);
    folder_.write("users.txt", users);
    folder_.write("rows.csv", rows);
    folder_.write("positive.txt", edge_text(positive_edges()));
    folder_.write("hard.txt", edge_text(hard_edges()));
  }

  // `kind`: which sampler. Keys of items and users are their numbers.
  std::string text(const std::string& kind, const std::string& more = "") const {
    const bool is_hard = kind.starts_with("hard"), is_uniform = kind.ends_with("v2");
    return cat(
        R"(data_config { dataset_type: CsvDataset with_header: true fg_mode: FG_DAG label_fields: "clk" )",
        kind, " { item_input_path: '", folder_.path("items.txt"), "' user_input_path: '",
        folder_.path("users.txt"), "'",
        is_uniform ? cat(" pos_edge_input_path: '", folder_.path("positive.txt"), "'") : "",
        is_hard
            ? cat(" num_hard_sample: 3 hard_neg_edge_input_path: '", folder_.path("hard.txt"), "'")
            : "",
        " num_sample: ", kEdgeDraws, R"( num_eval_sample: 7 attr_fields: "item" attr_fields: "cate"
          item_id_field: "item" user_id_field: "user" } }
      feature_configs { id_feature { feature_name: "user" vocab_list: [)",
        quoted("u", kEdgeUsers), R"(] default_bucketize_value: 0 embedding_dim: 4 } }
      feature_configs { id_feature { feature_name: "item" vocab_list: [)",
        quoted("i", kEdgeItems), R"(] default_bucketize_value: 0 embedding_dim: 4 } }
      feature_configs { id_feature { feature_name: "cate" hash_bucket_size: 1000 embedding_dim: 4 } }
      )",
        more,
        R"(model_config { feature_groups { group_name: "u" feature_names: "user" }
        feature_groups { group_name: "i" feature_names: "item" feature_names: "cate" }
        dssm { user_tower { input: "u" } item_tower { input: "i" } } })");
  }

  LoaderOptions options() const {
    LoaderOptions options;
    options.input = folder_.path("rows.csv");
    options.batch_size = kEdgeRows;
    options.shuffle = true;
    options.shuffle_rows = 64;
    options.epochs = 4;
    return options;
  }

  static std::vector<Batch> read(const LoaderOptions& options, const std::string& pipeline) {
    const TestPipeline of(pipeline);
    Loader loader(of.config.data_config(), of.features, options);
    std::vector<Batch> batches;
    for (Batch batch; loader.next(batch);) batches.push_back(batch);
    return batches;
  }

  static std::string quoted(const char* letter, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += cat(i == 0 ? "" : ", ", "'", letter, i, "'");
    return text;
  }

  TempFolder folder_;
};

// Positions in Batch::sparse.
enum { kEdgeUser, kEdgeItem, kEdgeCate };

// Sums (seen - expected)^2 / expected; of `places` that is about places, and with this bound no
// distribution of the right kind fails.
void expect_distribution(const std::vector<double>& seen, const std::vector<double>& expected) {
  double chi_square = 0.0;
  int places = 0;
  for (size_t i = 0; i < seen.size(); ++i) {
    if (expected[i] == 0.0) {
      EXPECT_EQ(seen[i], 0.0) << i;
      continue;
    }
    ++places;
    chi_square += (seen[i] - expected[i]) * (seen[i] - expected[i]) / expected[i];
  }
  EXPECT_LT(chi_square, places + 6.0 * std::sqrt(2.0 * places));
}

// Words are numbered in their order.
int number_of_key(int64_t key) { return static_cast<int>(key); }

TEST_F(EdgeSamplerTest, UniformNegativesAreItemsWithEdgesThatNoUserSoFarHas) {
  const Edges edges = positive_edges();
  const int each = (kEdgeDraws + kEdgeRows - 1) / kEdgeRows;
  std::vector<double> seen(kEdgeItems), expected(kEdgeItems);
  for (const Batch& batch : read(options(), text("negative_sampler_v2"))) {
    if (batch.rows != kEdgeRows) continue;
    const auto& users = batch.sparse[kEdgeUser].keys;
    const auto& items = batch.sparse[kEdgeItem].keys;
    ASSERT_EQ(items.size(), size_t{kEdgeRows + kEdgeDraws});
    EXPECT_THAT(batch.candidate_of, IsEmpty());
    std::set<int> chosen;
    for (int i = 0; i < kEdgeDraws; ++i) {
      const auto row = static_cast<size_t>(i / each);
      chosen.insert(number_of_key(items[row]));
      for (const auto& [user, item] : edges)
        if (user == number_of_key(users[row])) chosen.insert(item);
      // A draw falls on each of 30 items; five times those that are chosen are drawn again.
      double taken = 0.0;
      for (int item = 0; item < 30; ++item) taken += chosen.contains(item) ? 1.0 / 30 : 0.0;
      for (int item = 0; item < 30; ++item) {
        double chance = 0.0;
        for (int draw = 0; draw < 6; ++draw)
          if (draw == 5 || !chosen.contains(item)) chance += std::pow(taken, draw) / 30;
        expected[static_cast<size_t>(item)] += chance;
      }
      const int drawn = number_of_key(items[static_cast<size_t>(kEdgeRows + i)]);
      ASSERT_TRUE(drawn >= 0 && drawn < kEdgeItems);
      seen[static_cast<size_t>(drawn)] += 1.0;
    }
  }
  expect_distribution(seen, expected);
}

TEST_F(EdgeSamplerTest, HardNegativesAreThoseOfTheUserOfTheRow) {
  const Edges edges = hard_edges();
  for (const char* kind : {"hard_negative_sampler", "hard_negative_sampler_v2"}) {
    std::vector<double> seen(kEdgeItems), expected(kEdgeItems);  // of user 0, who has too many
    for (const Batch& batch : read(options(), text(kind))) {
      const auto rows = static_cast<size_t>(batch.rows);
      const auto& items = batch.sparse[kEdgeItem].keys;
      ASSERT_EQ(items.size(), batch.candidate_of.size());
      ASSERT_EQ(batch.sequences.at(0).elements(), std::ssize(items));
      ASSERT_EQ(batch.sparse[kEdgeCate].keys.size(), items.size());
      std::map<int64_t, std::set<int>> of_rows;
      for (size_t i = 0; i < items.size(); ++i) {
        if (i < rows + kEdgeDraws) {
          EXPECT_EQ(batch.candidate_of[i], -1);
          continue;
        }
        EXPECT_GE(batch.candidate_of[i], batch.candidate_of[i - 1]);  // in the order of rows
        const bool is_new = of_rows[batch.candidate_of[i]].insert(number_of_key(items[i])).second;
        EXPECT_TRUE(is_new);
      }
      for (size_t row = 0; row < rows; ++row) {
        const int user = number_of_key(batch.sparse[kEdgeUser].keys[row]);
        std::set<int> all;
        for (const auto& [from, item] : edges)
          if (from == user) all.insert(item);
        const std::set<int>& drawn = of_rows[static_cast<int64_t>(row)];
        EXPECT_EQ(drawn.size(), std::min<size_t>(all.size(), 3));
        EXPECT_TRUE(std::includes(all.begin(), all.end(), drawn.begin(), drawn.end()));
        if (user != 0) continue;
        for (const int item : all) expected[static_cast<size_t>(item)] += 3.0 / 6.0;
        for (const int item : drawn) seen[static_cast<size_t>(item)] += 1.0;
      }
    }
    expect_distribution(seen, expected);
  }
}

TEST_F(EdgeSamplerTest, ABatchDependsOnItsPlaceAlone) {
  for (const char* kind :
       {"negative_sampler_v2", "hard_negative_sampler", "hard_negative_sampler_v2"}) {
    LoaderOptions few = options();
    few.epochs = 1;
    few.max_batches = 30;
    const std::vector<Batch> all = read(few, text(kind));
    ASSERT_EQ(all.size(), 30u);
    for (const size_t at : {size_t{0}, size_t{12}}) {
      LoaderOptions later = few;
      later.start = all[at].next;
      later.workers = 3;
      later.max_batches = 10;
      const std::vector<Batch> rest = read(later, text(kind));
      ASSERT_EQ(rest.size(), 10u);
      for (size_t i = 0; i < rest.size(); ++i)
        EXPECT_EQ(describe(rest[i]), describe(all[at + 1 + i])) << kind << at << " + " << i;
    }
    LoaderOptions other = few;
    other.stream = 1;
    other.streams = 2;
    EXPECT_NE(read(other, text(kind))[0].sparse[kEdgeItem].keys, all[0].sparse[kEdgeItem].keys);
  }
}

TEST_F(EdgeSamplerTest, PredictionsReadNoEdgesAndEvaluationsDrawTheirNumber) {
  LoaderOptions predicting = options();
  predicting.label_check = LabelCheck::kIgnore;
  predicting.max_batches = 2;
  const std::string pipeline = text("hard_negative_sampler_v2");
  folder_.write("hard.txt", "nothing of that kind\n");
  for (const Batch& batch : read(predicting, pipeline)) {
    EXPECT_EQ(batch.sequences.at(0).elements(), batch.rows);
    EXPECT_THAT(batch.candidate_of, IsEmpty());
  }
  TestPipeline of(text("negative_sampler_v2"));
  sample_for_evaluation(of.config.mutable_data_config());
  Loader loader(of.config.data_config(), of.features, options());
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  EXPECT_EQ(batch.sequences[0].elements(), batch.rows + 7);
}

TEST_F(EdgeSamplerTest, RemoteFilesGiveTheSameBatchesAsLocalOnes) {
  LoaderOptions few = options();
  few.max_batches = 4;
  std::string pipeline = text("hard_negative_sampler_v2");
  const std::vector<Batch> local = read(few, pipeline);
  MemoryObjects objects;
  for (const char* file : {"items.txt", "users.txt", "positive.txt", "hard.txt"}) {
    const std::string path = folder_.path(file), address = cat("s3://bucket/", file);
    objects.put(address, read_text_file(path));
    std::filesystem::remove(path);
    pipeline.replace(pipeline.find(path), path.size(), address);
  }
  few.storage = std::make_shared<RemoteStorage>(RemoteOptions{.cache_dir = folder_.path("cache")},
                                                memory_stores(objects));
  const std::vector<Batch> remote = read(few, pipeline);
  ASSERT_EQ(remote.size(), local.size());
  for (size_t i = 0; i < local.size(); ++i) EXPECT_EQ(describe(remote[i]), describe(local[i]));
  objects.remove("s3://bucket/hard.txt");
  EXPECT_THAT([&] { read(few, pipeline); }, ThrowsMessage<Error>(HasSubstr("hard.txt")));
}

TEST_F(EdgeSamplerTest, BadFilesAreNamedWithTheirLine) {
  const auto refused = [&](const std::string& file, const std::string& content) {
    return [this, file, content] {
      const std::string before = read_text_file(folder_.path(file));
      folder_.write(file, content);
      try {
        read(options(), text("hard_negative_sampler_v2"));
      } catch (const Error&) {
        folder_.write(file, before);
        throw;
      }
    };
  };
  const std::string edges = "userid:int64\titemid:int64\tweight:float\n",
                    users = "id:int64\tweight:float\n",
                    items = "id:int64\tweight:float\tattrs:string\n";
  EXPECT_THAT(refused("hard.txt", "userid:int64\tweight:float\nu1\t1\n"),
              ThrowsMessage<Error>(HasSubstr(
                  "hard.txt, line 1: a field of the first line is \"weight:float\", expected "
                  "itemid; the line names userid:int64, itemid:int64, weight:float")));
  EXPECT_THAT(refused("positive.txt", ""),
              ThrowsMessage<Error>(HasSubstr("positive.txt, line 1: a field of the first line")));
  EXPECT_THAT(refused("positive.txt", edges), ThrowsMessage<Error>(HasSubstr("has no edges")));
  EXPECT_THAT(refused("positive.txt", edges + "u1\ti1\t1\nu1\ti"),
              ThrowsMessage<Error>(HasSubstr("positive.txt, line 3: the line has 2 fields, "
                                             "expected 3")));
  EXPECT_THAT(refused("positive.txt", edges + "u1\ti1\t1\n\nu77\ti1\t1\n"),
              ThrowsMessage<Error>(
                  HasSubstr("positive.txt, line 4: user \"u77\" is not in the file of users")));
  EXPECT_THAT(refused("hard.txt", edges + "u1\ti77\t1\n"),
              ThrowsMessage<Error>(
                  HasSubstr("hard.txt, line 2: item \"i77\" is not in the file of items")));
  EXPECT_THAT(refused("hard.txt", edges + "u1\ti1\t1\nu1\ti1\t2\n"),
              ThrowsMessage<Error>(HasSubstr(
                  "hard.txt, line 3: the edge from user \"u1\" to item \"i1\" is there twice")));
  EXPECT_THAT(refused("hard.txt", edges + "u1\ti1\theavy\n"),
              ThrowsMessage<Error>(HasSubstr("hard.txt, line 2: the weight is \"heavy\"")));
  EXPECT_THAT(refused("hard.txt", edges + "\ti1\t1\n"),
              ThrowsMessage<Error>(HasSubstr("hard.txt, line 2: the line has no userid")));
  EXPECT_THAT(refused("users.txt", users), ThrowsMessage<Error>(HasSubstr("has no users")));
  EXPECT_THAT(refused("users.txt", users + "u1\t1\nu1\t1\n"),
              ThrowsMessage<Error>(HasSubstr("users.txt, line 3: user \"u1\" is there twice")));
  EXPECT_THAT(refused("items.txt", items + "i1\t1\ti1:c1\ni1\t1\ti1:c1\n"),
              ThrowsMessage<Error>(HasSubstr("items.txt, line 3: item \"i1\" is there twice")));
  EXPECT_NO_THROW(read(options(), text("hard_negative_sampler_v2")));
}

TEST_F(EdgeSamplerTest, SettingsThatDoNotFitAreRefused) {
  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string changed = text("hard_negative_sampler_v2");
    changed.replace(changed.find(from), from.size(), to);
    return [changed] { TestPipeline{changed}; };
  };
  EXPECT_THAT(refused("num_hard_sample: 3", "num_hard_sample: 0"),
              ThrowsMessage<Error>(HasSubstr(
                  "data_config.hard_negative_sampler_v2.num_hard_sample is 0, expected")));
  EXPECT_THAT(refused("user_id_field: \"user\"", "user_id_field: \"cate\""),
              ThrowsMessage<Error>(HasSubstr("user_id_field is \"cate\", which no categorical "
                                             "feature of rows reads")));
  EXPECT_THAT(refused("user_id_field: \"user\"", ""),
              ThrowsMessage<Error>(HasSubstr("has no user_id_field")));
  EXPECT_THAT(refused(cat("user_input_path: '", folder_.path("users.txt"), "'"), ""),
              ThrowsMessage<Error>(HasSubstr("has no user_input_path; name the file of users")));
}

TEST(EdgeLists, HaveTheItemsOfAUserInOrder) {
  const EdgeLists lists({{7, 3}, {-2, 9}, {7, 1}, {7, 3}, {4, 0}});
  EXPECT_THAT(lists.items_of(7), ElementsAre(1, 3));
  EXPECT_THAT(lists.items_of(-2), ElementsAre(9));
  EXPECT_THAT(lists.items_of(4), ElementsAre(0));
  EXPECT_THAT(lists.items_of(5), IsEmpty());
  EXPECT_THAT(lists.all_items(), ElementsAre(0, 1, 3, 9));
  EXPECT_THAT(EdgeLists().items_of(1), IsEmpty());
}

}  // namespace
}  // namespace emblem
