// Features that are computed, from CSV text to buckets and numbers, with the expected values of
// TorchEasyRec's tests.
#include <gmock/gmock.h>

#include "data/test_data.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ComputedFeatures : public testing::Test {
 protected:
  // One batch of rows "a;b": columns are separated by tabs, as values have all other characters.
  Batch read(const std::string& features, const std::string& names, const std::string& rows) {
    const TestPipeline pipeline(config(features));
    Loader loader(pipeline.config.data_config(), pipeline.features, options(names, rows));
    Batch batch;
    EXPECT_TRUE(loader.next(batch));
    return batch;
  }
  std::string error(const std::string& features, const std::string& names,
                    const std::string& rows) {
    const TestPipeline pipeline(config(features));
    return loader_error(pipeline, options(names, rows));
  }

 private:
  static std::string config(const std::string& features) {
    return "data_config { with_header: true fg_mode: FG_DAG delimiter: '\\t' } " + features;
  }
  LoaderOptions options(const std::string& names, const std::string& rows) {
    LoaderOptions options;
    options.input = folder_.write("rows.csv", "label\t" + names + "\n" + rows);
    return options;
  }

  TempFolder folder_;
};

std::string feature(const std::string& text) { return "feature_configs { " + text + " } "; }

constexpr char kTwoFields[] =
    "1\tua\x1dub\tia\x1dib\n1\tuc\x1dud\tic\n1\tuee\x1duf\t\n1\tug\tid\x1die\n1\tuh\tif\n1\t\tij\n";

TEST_F(ComputedFeatures, TokensAreRows) {
  const TempFolder folder;
  const std::string file = folder.write(
      "t.json",
      R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})");
  const Batch batch = read(feature("tokenize_feature { feature_name: 'f' expression: 'item:t' "
                                   "embedding_dim: 4 vocab_file: '" +
                                   file + "' }"),
                           "t", "1\taab\n1\tb\n");
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(0, 2, 1));
  EXPECT_THAT(batch.sparse[0].offsets, ElementsAre(0, 2, 3));
}

TEST_F(ComputedFeatures, CombosAreHashedAndMissingOnesAreTheDefault) {
  const auto combo = [](const std::string& settings) {
    return feature(
        "combo_feature { feature_name: 'f' embedding_dim: 4 expression: 'user:u' "
        "expression: 'item:i' " +
        settings + " }");
  };
  Batch batch = read(combo("hash_bucket_size: 100"), "u\ti", kTwoFields);
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(37, 90, 5, 97, 60, 56, 40, 57, 55));
  EXPECT_THAT(batch.sparse[0].offsets, ElementsAre(0, 4, 6, 6, 8, 9, 9));
  batch = read(combo("hash_bucket_size: 100 default_value: 'xyz'"), "u\ti", kTwoFields);
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(37, 90, 5, 97, 60, 56, 13, 40, 57, 55, 13));
  batch = read(combo("vocab_list: ['ua_ia', 'ua_ib', 'ub_ia'] default_value: 'xyz'"), "u\ti",
               "1\tua\x1dub\tia\x1dib\n1\t\tia\n");
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(2, 3, 4, 1, 0));
}

constexpr char kLookups[] =
    "1\tca:1\x1d"
    "cb:2\tca\x1d"
    "cb\n1\tca:1\x1d"
    "cb:2\tca\n1\tca:1\x1d"
    "cb:2\tca\x1d"
    "cd\n"
    "1\tca:1\x1d"
    "cb:2\tcd\n1\tca:1\x1d"
    "cb:2\t\n1\t\tca\n";

std::string lookup(const std::string& settings) {
  return feature("lookup_feature { feature_name: 'f' map: 'user:m' key: 'item:k' " + settings +
                 " }");
}

TEST_F(ComputedFeatures, LookupsInBucketsAndAsNumbers) {
  const std::string buckets = "boundaries: [-0.5, 0.5, 1.5, 2.5] embedding_dim: 4 ";
  EXPECT_THAT(read(lookup(buckets + "combiner: 'sum'"), "m\tk", kLookups).sparse[0].keys,
              ElementsAre(4, 2, 2, 1, 1, 1));
  EXPECT_THAT(read(lookup(buckets + "combiner: 'mean'"), "m\tk", kLookups).sparse[0].keys,
              ElementsAre(3, 2, 2, 1, 1, 1));
  const Batch all = read(lookup(buckets + "combiner: ''"), "m\tk", kLookups);
  EXPECT_THAT(all.sparse[0].keys, ElementsAre(2, 3, 2, 2, 1, 1, 1));
  EXPECT_THAT(all.sparse[0].offsets, ElementsAre(0, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(read(lookup("num_buckets: 10 embedding_dim: 4"), "m\tk", kLookups).sparse[0].keys,
              ElementsAre(1, 2, 1, 1, 0, 0, 0));
  EXPECT_THAT(read(lookup("combiner: 'mean'"), "m\tk", kLookups).dense,
              ElementsAre(1.5, 1, 1, 0, 0, 0));
  EXPECT_THAT(
      read(lookup("value_dim: 2 combiner: ''"), "m\tk", "1\tca:1,2\tca\n1\tca:1,2\tcd\n").dense,
      ElementsAre(1, 2, 0, 0));
  EXPECT_THAT(read(lookup("hash_bucket_size: 100 embedding_dim: 4 default_value: 'z'"), "m\tk",
                   "1\tca:x\x1d"
                   "cb:y\tca\x1d"
                   "cb\n1\t\tca\n")
                  .sparse[0]
                  .keys,
              ElementsAre(35, 30, 54));
}

TEST_F(ComputedFeatures, ABrokenMapIsABadRow) {
  EXPECT_THAT(error(lookup(""), "m\tk", "1\tca\tca\n"),
              HasSubstr("feature \"f\": the map has \"ca\", expected key:value"));
}

TEST_F(ComputedFeatures, MatchesAreHashedWithTheNameOfTheFeature) {
  const std::string match =
      "match_feature { feature_name: 'match_feat' nested_map: 'user:m' pkey: 'item:p' skey: "
      "'item:s' embedding_dim: 4 ";
  const std::string rows = "1\tca^ba:1,bb:2|cb^ba:3,bb:4\tca\tba\n1\t\tca\tba\n";
  EXPECT_THAT(read(feature(match + "hash_bucket_size: 100 default_value: 'z' }"), "m\tp\ts", rows)
                  .sparse[0]
                  .keys,
              ElementsAre(71, 54));
  EXPECT_THAT(
      read(feature(match + "boundaries: [-0.5, 0.5, 1.5, 2.5] }"), "m\tp\ts", rows).sparse[0].keys,
      ElementsAre(2, 1));
}

TEST_F(ComputedFeatures, ExpressionsAndProducts) {
  const std::string expr =
      "expr_feature { feature_name: 'f' variables: 'user:a' variables: 'item:b' ";
  EXPECT_THAT(
      read(feature(expr + "expression: 'a*b' default_value: '0.5' }"), "a\tb", "1\t2\t3\n1\t\t3\n")
          .dense,
      ElementsAre(6, 0.5));
  const Batch dots =
      read(feature(expr + "expression: 'dot(a,b)' boundaries: [0.05, 0.1, 0.15] embedding_dim: 4 "
                          "separator: ',' default_value: '' }"),
           "a\tb", "1\t0.2,0.2\t0.2,0.2\n1\t\t0.2,0.2\n1\t0.3,0.4\t0.2,0.2\n");
  EXPECT_THAT(dots.sparse[0].keys, ElementsAre(1, 2));
  EXPECT_THAT(dots.sparse[0].offsets, ElementsAre(0, 1, 1, 2));
  const Batch products = read(
      feature("kv_dot_product { feature_name: 'f' query: 'user:q' document: 'item:d' separator: "
              "'|' boundaries: [0.05, 0.15, 1.0] embedding_dim: 4 default_value: '0.1' }"),
      "q\td", "1\ta:0.5|b:0.5\ta:0.5|b:0.5\n1\ta|b|c\ta|b\n1\ta|b\t\n");
  EXPECT_THAT(products.sparse[0].keys, ElementsAre(2, 3, 1));
}

TEST_F(ComputedFeatures, OverlapsMasksAndCombinations) {
  EXPECT_THAT(
      read(feature("overlap_feature { feature_name: 'f' query: 'user:q' title: 'item:t' "
                   "method: 'query_common_ratio' boundaries: [0.25, 0.75] embedding_dim: 4 }"),
           "q\tt",
           "1\tabc\x1d"
           "efg\tabc\x1dqwe\n1\tabc\tabc\n1\t\tabc\n")
          .sparse[0]
          .keys,
      ElementsAre(1, 2, 0));
  EXPECT_THAT(read(feature("bool_mask_feature { feature_name: 'f' expression: 'user:i' expression: "
                           "'user:m' separator: ',' hash_bucket_size: 10 embedding_dim: 4 }"),
                   "i\tm", "1\t1,2,3,4\ttrue,false,true,false\n")
                  .sparse[0]
                  .keys,
              ElementsAre(5, 3));
  EXPECT_THAT(
      read(feature("combine_feature { feature_name: 'f' expression: 'user:x' num_buckets: 10 "
                   "embedding_dim: 4 default_value: '0' combiner: 'mean' value_map { key: 'a' "
                   "value: 1 } value_map { key: 'b' value: 2 } }"),
           "x",
           "1\ta\x1d"
           "b\n1\tb\n1\t\n")
          .sparse[0]
          .keys,
      ElementsAre(1, 2, 0));
}

TEST_F(ComputedFeatures, OfSequences) {
  const auto grouped = [](const std::string& text) {
    return feature(
        "sequence_feature { sequence_name: 's' sequence_length: 50 sequence_delim: ';' "
        "features { " +
        text + " } }");
  };
  const std::string combo =
      "combo_feature { feature_name: 'f' embedding_dim: 4 hash_bucket_size: 100 expression: "
      "'user:u' expression: 'item:i' value_dim: ";
  const std::string rows =
      "1\tua\tabc\x1d"
      "efg;hij\n1\t\t\n1\tub\thij\n";
  const Batch all = read(grouped(combo + "0 }"), "u\ts__i", rows);
  EXPECT_THAT(all.sparse[0].keys, ElementsAre(2, 42, 3, 26, 23));
  EXPECT_THAT(all.sparse[0].offsets, ElementsAre(0, 2, 3, 4, 5));
  EXPECT_THAT(all.sequences[0].offsets, ElementsAre(0, 2, 3, 4));
  EXPECT_THAT(read(grouped(combo + "1 default_value: 'xyz' }"), "u\ts__i", rows).sparse[0].keys,
              ElementsAre(2, 3, 13, 23));
  const Batch numbers =
      read(grouped("lookup_feature { feature_name: 'f' map: 'user:m' key: 'item:k' value_dim: 2 "
                   "combiner: '' }"),
           "m\ts__k",
           "1\tca:1,2\x1d"
           "cb:3,4\tca;cb\n1\tca:1,2\tcd;ca\n1\t\tca\n");
  EXPECT_THAT(numbers.sequences[0].numbers, ElementsAre(1, 2, 3, 4, 0, 0, 1, 2, 0, 0));
}

TEST_F(ComputedFeatures, FeaturesReadFeatures) {
  // The bucket of f is read, and the number of x.
  const Batch batch = read(
      feature("expr_feature { feature_name: 'y' expression: 'x * 2 + f' variables: 'feature:x' "
              "variables: 'feature:f' }") +
          lookup("combiner: 'sum' boundaries: [1.5] embedding_dim: 4") +
          feature("raw_feature { feature_name: 'x' expression: 'user:x' stub_type: true }") +
          feature(
              "combo_feature { feature_name: 'c' expression: 'feature:f' expression: 'const:v2' "
              "vocab_list: ['0_v2', '1_v2'] embedding_dim: 4 }"),
      "m\tk\tx",
      "1\ta:1\x1d"
      "b:1\ta\x1d"
      "b\t5\n1\ta:1\ta\t3\n");
  EXPECT_THAT(batch.dense, ElementsAre(11, 6));
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(1, 0));
  EXPECT_THAT(batch.sparse[1].keys, ElementsAre(3, 2));
}

TEST_F(ComputedFeatures, WhatANormalizerMakesNoNumberOfIsTheDefault) {
  EXPECT_THAT(read(feature("raw_feature { feature_name: 'x' expression: 'user:x' default_value: "
                           "'7' normalizer: 'method=expression,expr=sqrt(x)' }"),
                   "x", "1\t4\n1\t-4\n1\t\n")
                  .dense,
              ElementsAre(2, 7, 7));
}

}  // namespace
}  // namespace emblem
