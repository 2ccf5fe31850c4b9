// Values become keys: every way, with the values that TorchEasyRec's published tests expect.
#include "data/feature/bucketizer.h"

#include <gmock/gmock.h>

#include "core/math/hash.h"
#include "data/test_data.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::IsEmpty;

Batch read(const std::string& features, const std::string& rows, const std::string& data = "",
           FeatureCounts* counts = nullptr) {
  const TempFolder folder;
  const TestPipeline pipeline("data_config { with_header: true fg_mode: FG_NORMAL " + data + " } " +
                              features);
  LoaderOptions options;
  options.input = folder.write("rows.csv", rows);
  Loader loader(pipeline.config.data_config(), pipeline.features, options);
  Batch batch;
  EXPECT_TRUE(loader.next(batch));
  if (counts != nullptr) *counts = loader.statistics().counts;
  return batch;
}

std::string id_feature(const std::string& settings) {
  return "feature_configs { id_feature { feature_name: 'a' embedding_dim: 16 " + settings + " } }";
}

TEST(Bucketizer, HashesTextAsTorchEasyRec) {
  struct Case {
    const char* text;
    uint64_t bucket;
  };
  constexpr Case kCases[] = {
      {"abc", 33},    {"efg", 44},
      {"hij", 66},    {"xyz", 13},
      {"x", 35},      {"y", 30},
      {"z", 54},      {"0", 26},
      {"1", 95},      {"2", 70},
      {"3", 13},      {"4", 56},
      {"ua_ia", 37},  {"ua_ib", 90},
      {"ub_ia", 5},   {"ub_ib", 97},
      {"uc_ic", 60},  {"ud_ic", 56},
      {"ug_id", 40},  {"ug_ie", 57},
      {"uh_if", 55},  {"ua_abc", 2},
      {"ua_efg", 42}, {"ua_hij", 3},
      {"ub_hij", 23}, {"match_feat_1", 71},
  };
  for (const Case& each : kCases) EXPECT_EQ(fg_hash(each.text) % 100, each.bucket) << each.text;
}

struct KeyCase {
  const char* settings;
  std::vector<int64_t> keys;
  std::vector<int32_t> offsets;
};

void expect_keys(const std::vector<KeyCase>& cases, const std::string& rows,
                 const std::string& more = "") {
  for (const KeyCase& each : cases) {
    SCOPED_TRACE(each.settings);
    const Batch batch = read(id_feature(each.settings + more), rows);
    EXPECT_THAT(batch.sparse[0].keys, ElementsAreArray(each.keys));
    EXPECT_THAT(batch.sparse[0].offsets, ElementsAreArray(each.offsets));
  }
}

constexpr const char* kWords =
    "label,a\n1,abc\x1d"
    "efg\n1,\n1,hij\n";

TEST(Bucketizer, HashBucketSize) {
  expect_keys({{"hash_bucket_size: 100", {33, 44, 66}, {0, 2, 2, 3}},
               {"hash_bucket_size: 100 default_value: 'xyz'", {33, 44, 13, 66}, {0, 2, 3, 4}},
               {"hash_bucket_size: 100 value_dim: 1", {33, 66}, {0, 1, 1, 2}}},
              kWords);
  const Batch integers =
      read(id_feature("hash_bucket_size: 100 default_value: '4'"), "label,a\n1,1\n1,2\n1,\n1,3\n",
           "input_fields { input_name: 'a' input_type: INT64 }");
  EXPECT_THAT(integers.sparse[0].keys, ElementsAre(95, 70, 56, 13));
}

TEST(Bucketizer, VocabularyLists) {
  expect_keys(
      {{"vocab_list: ['abc', 'efg']", {2, 3, 1}, {0, 2, 2, 3}},
       {"vocab_list: ['abc', 'efg'] default_value: 'xyz'", {2, 3, 0, 1}, {0, 2, 3, 4}},
       {"vocab_list: ['abc', 'efg'] default_value: 'abc'", {2, 3, 2, 1}, {0, 2, 3, 4}},
       {"vocab_list: ['xyz', 'abc', 'efg'] default_bucketize_value: 0", {1, 2, 0}, {0, 2, 2, 3}},
       {"vocab_list: ['xyz', 'abc', 'efg'] default_bucketize_value: 0 default_value: 'xyz'",
        {1, 2, 0, 0},
        {0, 2, 3, 4}}},
      kWords);
}

TEST(Bucketizer, VocabularyDictionaries) {
  const std::string twos = "vocab_dict: [{ key: 'abc' value: 2 }, { key: 'efg' value: 2 }] ";
  const std::string ones = "vocab_dict: [{ key: 'abc' value: 1 }, { key: 'efg' value: 1 }";
  expect_keys({{"", {2, 2, 1}, {0, 2, 2, 3}},
               {"default_value: 'xyz' ", {2, 2, 0, 1}, {0, 2, 3, 4}},
               {"default_value: 'abc' ", {0, 2, 0, 1}, {0, 2, 3, 4}}},
              kWords, twos);
  expect_keys({{"default_bucketize_value: 0 ", {1, 1, 0}, {0, 2, 2, 3}}}, kWords, ones + "]");
  expect_keys({{"default_bucketize_value: 0 default_value: 'xyz' ", {1, 1, 0, 0}, {0, 2, 3, 4}}},
              kWords, ones + ", { key: 'xyz' value: 0 }]");
}

TEST(Bucketizer, VocabularyFiles) {
  const TempFolder folder;
  const auto file = [&](const std::string& name, const std::string& text) {
    return "default_bucketize_value: 1 vocab_file: '" + folder.write(name, text) + "'";
  };
  const std::string words = file("words", "<default>\n<oov>\nabc\nefg\n");
  const std::string named = file("named", "xyz\n<oov>\nabc\nefg\n");
  const std::string numbered = file("numbered", "abc 2\nefg 2\n");
  expect_keys({{"", {2, 3, 1}, {0, 2, 2, 3}}}, kWords, words);
  expect_keys({{"default_value: 'xyz' ", {2, 3, 0, 1}, {0, 2, 3, 4}}}, kWords, named);
  expect_keys({{"", {2, 2, 1}, {0, 2, 2, 3}}}, kWords, numbered);
}

TEST(Bucketizer, NumBuckets) {
  expect_keys({{"num_buckets: 100", {0, 1, 2}, {0, 2, 2, 3}},
               {"num_buckets: 100 default_value: '3'", {0, 1, 3, 2}, {0, 2, 3, 4}}},
              "label,a\n1,0\x1d"
              "1\n1,\n1,2\n");
}

TEST(Bucketizer, WeightedKeys) {
  const Batch batch = read(id_feature("num_buckets: 100000 weighted: true"),
                           "label,a\n1,123:0.5\n1,1391:0.3\n1,\n1,12:0.9\x1d"
                           "123:0.21\n");
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(123, 1391, 12, 123));
  EXPECT_THAT(batch.sparse[0].offsets, ElementsAre(0, 1, 2, 2, 4));
  EXPECT_THAT(batch.sparse[0].weights, ElementsAre(0.5f, 0.3f, 0.9f, 0.21f));
}

TEST(Bucketizer, IdsOutOfRangeAreRow0WhereTheDataConfigSaysSo) {
  FeatureCounts counts;
  const Batch batch = read(id_feature("num_buckets: 3"),
                           "label,a\n1,2\n1,3\n1,-1\x1d"
                           "1\n",
                           "out_of_range_ids: ROW_0", &counts);
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(2, 0, 0, 1));
  EXPECT_EQ(counts.ids_in_row_0, 2);
}

TEST(Bucketizer, ZchHashesIdsTo63Bits) {
  const Batch batch = read(id_feature("zch { zch_size: 100 lfu {} }"), "label,a\n1,7\n1,abc\n");
  const auto key = [](const char* text) {
    return static_cast<int64_t>(fg_hash(text) % ((uint64_t{1} << 63) - 1));
  };
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(key("7"), key("abc")));
}

TEST(Bucketizer, DividedTablesTakeKeysModuloTheirRows) {
  const Batch batch = read(id_feature("num_buckets: 100") + "train_config { divide_tables: 10 }",
                           "label,a\n1,7\n1,23\n1,99\n");
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(7, 3, 9));
}

std::string raw_feature(const std::string& settings) {
  return "feature_configs { raw_feature { feature_name: 'a' " + settings + " } }";
}

TEST(Bucketizer, Boundaries) {
  const std::string boundaries = "embedding_dim: 16 boundaries: [0.05, 0.15, 0.25] ";
  const auto keys = [&](const std::string& settings, const std::string& rows) {
    return read(raw_feature(boundaries + settings), rows).sparse[0];
  };
  const SparseColumn single = keys("default_value: '0.1'", "label,a\n1,0.2\n1,0.1\n1,0.3\n1,\n");
  EXPECT_THAT(single.keys, ElementsAre(2, 1, 3, 1));
  const SparseColumn empty = keys("default_value: ''", "label,a\n1,0.2\n1,\n1,0.3\n");
  EXPECT_THAT(empty.keys, ElementsAre(2, 3));
  EXPECT_THAT(empty.offsets, ElementsAre(0, 1, 1, 2));
  const SparseColumn pairs = keys("default_value: '0.1\\0350.4' value_dim: 2",
                                  "label,a\n1,0.2\x1d"
                                  "0.5\n1,\n1,0.3\x1d"
                                  "0.6\n");
  EXPECT_THAT(pairs.keys, ElementsAre(2, 3, 1, 3, 3, 3));
  EXPECT_THAT(pairs.offsets, ElementsAre(0, 2, 4, 6));
  const SparseColumn logs =
      keys("default_value: '0.01' normalizer: 'method=log10,threshold=0.05,default=-5'",
           "label,a\n1,0.1\n1,\n1,10\n");
  EXPECT_THAT(logs.keys, ElementsAre(0, 0, 3));
}

TEST(Bucketizer, NumbersKeepADefaultForEachPlace) {
  const Batch plain = read(raw_feature("value_dim: 2 default_value: '0.1\\0350.4'"),
                           "label,a\n1,0.2\x1d"
                           "0.5\n1,\n1,0.3\x1d"
                           "0.6\n");
  EXPECT_THAT(plain.dense, ElementsAre(0.2f, 0.5f, 0.1f, 0.4f, 0.3f, 0.6f));
  const Batch scaled = read(raw_feature("value_dim: 2 default_value: '0.1\\0350.4' "
                                        "normalizer: 'method=minmax,min=0.1,max=0.6'"),
                            "label,a\n1,0.2\x1d"
                            "0.5\n1,\n1,0.3\x1d"
                            "0.6\n");
  const float expected[] = {0.2f, 0.8f, 0.1f, 0.4f, 0.4f, 1.0f};
  for (int i = 0; i < 6; ++i) EXPECT_NEAR(scaled.dense[i], expected[i], 1e-6f);
}

}  // namespace
}  // namespace emblem
