#include "config/feature/feature_settings.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "config/load/load.h"
#include "config/load/vocabulary_file.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::ThrowsMessage;
using testing::UnorderedElementsAre;

FeatureSettings settings(const std::string& feature) {
  return settings_of(parse_pipeline("feature_configs { " + feature + " }", "x").feature_configs(0));
}

int64_t rows(const std::string& values) {
  return rows_of(settings("id_feature { feature_name: 'x' " + values + " }"), false);
}

std::string written(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

TEST(FeatureSettings, HaveTheDefaultsOfTheirMessage) {
  const FeatureSettings id = settings("id_feature { feature_name: 'x' }");
  EXPECT_EQ(id.type, FeatureType::kId);
  EXPECT_EQ(id.name, "x");
  EXPECT_EQ(id.default_value, "");
  EXPECT_EQ(id.pooling, "sum");
  EXPECT_EQ(id.separator, "\x1d");
  EXPECT_EQ(id.embedding_dim, 0);
  EXPECT_FALSE(id.embedding_name);
  EXPECT_TRUE(id.trainable);
  EXPECT_FALSE(id.in_sequence);
  EXPECT_FALSE(id.value_dim);
  EXPECT_EQ(settings("raw_feature { feature_name: 'x' }").default_value, "0");
}

TEST(FeatureSettings, AreReadFromEveryKind) {
  const char* const kinds[] = {"id_feature",      "raw_feature",       "combo_feature",
                               "lookup_feature",  "match_feature",     "expr_feature",
                               "overlap_feature", "tokenize_feature",  "custom_feature",
                               "kv_dot_product",  "bool_mask_feature", "combine_feature"};
  for (const std::string kind : kinds) {
    for (const std::string prefix : {"", "sequence_"}) {
      const FeatureSettings all =
          settings(prefix + kind +
                   " { feature_name: 'x' embedding_name: 't' embedding_dim: 8 pooling: 'mean' "
                   "init_fn: 'f' trainable: false stub_type: true data_type: 'FP16' use_mask: true "
                   "sequence_length: 5 sequence_delim: '|' sequence_fields: 'a' }");
      EXPECT_EQ(all.name, "x") << kind;
      EXPECT_EQ(all.in_sequence, !prefix.empty()) << kind;
      EXPECT_EQ(all.embedding_name, "t") << kind;
      EXPECT_EQ(all.embedding_dim, 8) << kind;
      EXPECT_EQ(all.pooling, "mean") << kind;
      EXPECT_EQ(all.init_fn, "f") << kind;
      EXPECT_FALSE(all.trainable) << kind;
      EXPECT_TRUE(all.stub_type) << kind;
      EXPECT_TRUE(all.use_mask) << kind;
      EXPECT_EQ(all.data_type, "FP16") << kind;
      EXPECT_EQ(all.sequence_length, 5) << kind;
      EXPECT_EQ(all.sequence_delim, "|") << kind;
      EXPECT_THAT(all.sequence_fields, ElementsAre("a")) << kind;
    }
  }
}

TEST(FeatureSettings, InputsAreInTheOrderOfTheMessage) {
  const auto inputs = [](const std::string& feature) { return settings(feature).expressions; };
  EXPECT_THAT(inputs("combo_feature { expression: 'user:a' expression: 'item:b' }"),
              ElementsAre("user:a", "item:b"));
  EXPECT_THAT(inputs("lookup_feature { key: 'item:k' map: 'user:m' }"),
              ElementsAre("user:m", "item:k"));
  EXPECT_THAT(inputs("match_feature { skey: 'ALL' pkey: 'item:p' nested_map: 'user:n' }"),
              ElementsAre("user:n", "item:p", "ALL"));
  EXPECT_THAT(inputs("expr_feature { expression: 'a+b' variables: 'user:a' variables: 'item:b' }"),
              ElementsAre("user:a", "item:b"));
  EXPECT_THAT(inputs("overlap_feature { title: 'item:t' query: 'user:q' }"),
              ElementsAre("user:q", "item:t"));
  EXPECT_THAT(inputs("kv_dot_product { document: 'item:d' query: 'user:q' }"),
              ElementsAre("user:q", "item:d"));
  EXPECT_THAT(inputs("id_feature { feature_name: 'x' }"), IsEmpty());
}

TEST(FeatureSettings, BucketsMakeAFeatureCategorical) {
  EXPECT_TRUE(is_sparse(settings("id_feature {}")));
  EXPECT_TRUE(is_sparse(settings("combo_feature {}")));
  EXPECT_TRUE(is_sparse(settings("tokenize_feature {}")));
  EXPECT_TRUE(is_sparse(settings("bool_mask_feature {}")));
  EXPECT_FALSE(is_sparse(settings("raw_feature { embedding_dim: 4 }")));
  EXPECT_TRUE(is_sparse(settings("raw_feature { boundaries: 1 }")));
  EXPECT_FALSE(is_sparse(settings("lookup_feature {}")));
  EXPECT_TRUE(is_sparse(settings("lookup_feature { hash_bucket_size: 4 }")));
  EXPECT_TRUE(is_sparse(settings("match_feature { vocab_list: 'a' }")));
  EXPECT_FALSE(is_sparse(settings("combine_feature { value_map { key: 'a' value: 1 } }")));
  EXPECT_TRUE(is_sparse(settings("combine_feature { num_buckets: 4 }")));
}

TEST(FeatureSettings, NumberOfValues) {
  EXPECT_EQ(value_dim_of(settings("id_feature {}"), false), 0);
  EXPECT_EQ(value_dim_of(settings("id_feature {}"), true), 1);
  EXPECT_EQ(value_dim_of(settings("id_feature { value_dim: 3 }"), true), 3);
  EXPECT_EQ(value_dim_of(settings("raw_feature { value_dim: 3 }"), false), 3);
  EXPECT_EQ(value_dim_of(settings("overlap_feature {}"), false), 1);
  EXPECT_EQ(value_dim_of(settings("expr_feature {}"), false), 1);
}

TEST(FeatureRows, OfEveryWay) {
  EXPECT_EQ(rows("num_buckets: 7"), 7);
  EXPECT_EQ(rows("hash_bucket_size: 8"), 8);
  EXPECT_EQ(rows("vocab_list: ['a', 'b', 'c']"), 5) << "the default and other words";
  EXPECT_EQ(rows("vocab_list: ['a', 'b', 'c'] default_bucketize_value: 1"), 3);
  EXPECT_EQ(rows("vocab_dict: [{key: 'a' value: 2}, {key: 'b' value: 9}]"), 10);
  EXPECT_EQ(rows("zch { zch_size: 100 }"), 100);
  EXPECT_EQ(rows("dynamicemb {}"), 0);
  EXPECT_EQ(rows_of(settings("raw_feature { boundaries: [1, 2, 3] }"), false), 4);
  EXPECT_EQ(rows_of(settings("raw_feature {}"), false), 0);
  const std::string words = written("words.txt", "a\nb\n\nc\n");
  EXPECT_EQ(rows("vocab_file: '" + words + "' default_bucketize_value: 0"), 3);
  const std::string numbered = written("numbered.txt", "a 5\nb\t11\n");
  EXPECT_EQ(rows("vocab_file: '" + numbered + "' default_bucketize_value: 0"), 12);
  EXPECT_EQ(rows("vocab_file: 'words.txt' asset_dir: '" + testing::TempDir() +
                 "' default_bucketize_value: 0"),
            3);
}

TEST(FeatureVocabulary, WordsHaveRows) {
  const auto vocabulary = [](const std::string& values, bool in_sequence = false) {
    return vocabulary_of(settings("id_feature { feature_name: 'x' " + values + " }"), in_sequence);
  };
  EXPECT_THAT(vocabulary("vocab_list: ['a', 'b'] default_value: 'z'").rows_of_words,
              UnorderedElementsAre(Pair("z", 0), Pair("a", 2), Pair("b", 3)));
  EXPECT_THAT(vocabulary("vocab_list: ['a', 'b'] default_value: 'b'").rows_of_words,
              UnorderedElementsAre(Pair("a", 2), Pair("b", 3)))
      << "a word of the list keeps its row";
  EXPECT_THAT(vocabulary("vocab_list: ['a'] default_bucketize_value: 0").rows_of_words,
              UnorderedElementsAre(Pair("a", 0)));
  EXPECT_EQ(vocabulary("vocab_list: ['a']").row_of_others, 1u);
  EXPECT_THAT(vocabulary("vocab_dict: [{key: 'a' value: 2}] default_value: 'a'").rows_of_words,
              UnorderedElementsAre(Pair("a", 0)))
      << "a word of the dict does not";
  EXPECT_THAT(vocabulary("vocab_list: ['a']", true).rows_of_words,
              UnorderedElementsAre(Pair("0", 0), Pair("a", 2)))
      << "sequences have no empty default";
  EXPECT_THAT([&] { vocabulary("vocab_list: ['a'] default_bucketize_value: 1"); },
              ThrowsMessage<Error>("feature \"x\": default_bucketize_value is 1, but the "
                                   "vocabulary has 1 rows; expected less than that"));
}

TEST(VocabularyFile, LinesAreAlike) {
  EXPECT_THAT([] { read_vocabulary_file(written("mixed.txt", "a 1\nb\n")); },
              ThrowsMessage<Error>(HasSubstr("mixed.txt:2: the line has no row")));
  EXPECT_THAT([] { read_vocabulary_file(written("bad.txt", "a x\n")); },
              ThrowsMessage<Error>(HasSubstr("bad.txt:1: the row is not a number")));
  EXPECT_THAT([] { read_vocabulary_file(written("empty.txt", "\n")); },
              ThrowsMessage<Error>(HasSubstr("has no words")));
}

TEST(VocabularyFile, HasEachWordOnce) {
  EXPECT_THAT([] { read_vocabulary_file(written("twice.txt", "a\nb\na\nc\n")); },
              ThrowsMessage<Error>(HasSubstr("twice.txt:3: the word is in the vocabulary")));
  EXPECT_THAT([] { rows("vocab_list: ['a', 'b', 'a']"); },
              ThrowsMessage<Error>(HasSubstr("vocab_list has \"a\" twice")));
}

TEST(VocabularyFile, IsText) {
  EXPECT_THAT(read_vocabulary_file(written("mark.txt",
                                           "\xef\xbb\xbf"
                                           "a\r\nb\r\n")),
              UnorderedElementsAre(Pair("a", 0), Pair("b", 1)));
  EXPECT_THAT(
      [] {
        read_vocabulary_file(written("wide.txt", std::string("\xff\xfe"
                                                             "a\0\n\0",
                                                             6)));
      },
      ThrowsMessage<Error>(HasSubstr("wide.txt is binary or UTF-16")));
  EXPECT_THAT([] { read_vocabulary_file("/dev/zero"); },
              ThrowsMessage<Error>(HasSubstr("/dev/zero is not a file")));
  EXPECT_THAT([] { read_vocabulary_file(written("long.txt", std::string(5000, 'x') + " y\n")); },
              ThrowsMessage<Error>(testing::Not(HasSubstr(std::string(200, 'x')))));
}

TEST(Vocabulary, HasRowsThatATableCanHave) {
  EXPECT_THAT([] { rows("vocab_dict: [{key: 'a' value: 18446744073709551615}]"); },
              ThrowsMessage<Error>(HasSubstr("has row 18446744073709551615, expected less than")));
}

}  // namespace
}  // namespace emblem
