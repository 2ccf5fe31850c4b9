#include "config/feature/sequences.h"

#include <gmock/gmock.h>

#include "config/load/load.h"
#include "core/files/temp_folder_test.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

FeatureLayout sequence_layout(const std::string& text) {
  return layout_of(parse_pipeline(text, "x.config"));
}

std::vector<std::string> members(const FeatureLayout& layout, size_t sequence) {
  std::vector<std::string> names;
  for (const size_t i : layout.sequences[sequence].features)
    names.push_back(layout.features[i].name);
  return names;
}

std::vector<std::string> inputs(const FeatureSpec& feature) {
  std::vector<std::string> names;
  for (const FeatureInput& input : feature.inputs) {
    const char* source[] = {"", "feature:", "const:"};
    names.push_back(source[static_cast<int>(input.source)] + input.name +
                    (input.is_sequence ? "*" : ""));
  }
  return names;
}

constexpr const char* kGrouped = R"(
    feature_configs { raw_feature { feature_name: "i" expression: "user:i" } }
    feature_configs { sequence_feature {
      sequence_name: "s" sequence_length: 50 sequence_delim: "|"
      features { id_feature { feature_name: "a" expression: "item:a" hash_bucket_size: 9
                              embedding_dim: 4 } }
      features { raw_feature { feature_name: "b" expression: "item:bb" value_dim: 2 } }
      features { raw_feature { feature_name: "c" expression: "item:c" } }
      features { combo_feature { feature_name: "d" expression: "user:u" expression: "item:a"
                                 hash_bucket_size: 5 embedding_name: "shared" } }
      features { combo_feature { feature_name: "e" expression: "user:u" expression: "item:a"
                                 sequence_fields: "u" hash_bucket_size: 5 } } } })";

TEST(Sequences, AGroupedOneIsExpanded) {
  const FeatureLayout features =
      sequence_layout(std::string(kGrouped) + "data_config { fg_mode: FG_DAG }");
  ASSERT_EQ(features.sequences.size(), 1u);
  EXPECT_THAT(members(features, 0), ElementsAre("s__a", "s__b", "s__c", "s__d", "s__e"));
  EXPECT_EQ(features.sequences[0].name, "s");
  EXPECT_EQ(features.sequences[0].max_length, 50);
  EXPECT_EQ(features.sequences[0].dense_cols, 3);
  EXPECT_EQ(features.dense_cols, 1) << "numbers of sequences are not in Batch::dense";
  EXPECT_EQ(features.sparse_count, 3);
  const FeatureSpec& a = features.find("s__a");
  EXPECT_TRUE(a.config.has_id_feature());
  EXPECT_EQ(a.sequence, 0);
  EXPECT_EQ(a.sequence_delim, "|");
  EXPECT_EQ(a.rows, 9);
  EXPECT_EQ(table_name_of(a.config), "s__a_emb");
  EXPECT_EQ(table_name_of(features.find("s__d").config), "shared");
  EXPECT_EQ(features.find("s__c").dense_begin, 2);
  EXPECT_EQ(features.find("i").sequence, -1);
}

TEST(Sequences, InputsHaveThePrefixWhereTheyAreSequences) {
  const FeatureLayout dag =
      sequence_layout(std::string(kGrouped) + "data_config { fg_mode: FG_DAG }");
  EXPECT_THAT(inputs(dag.find("s__a")), ElementsAre("s__a*"));
  EXPECT_THAT(inputs(dag.find("s__b")), ElementsAre("s__bb*"));
  EXPECT_THAT(inputs(dag.find("s__d")), ElementsAre("u", "s__a*"));
  EXPECT_THAT(inputs(dag.find("s__e")), ElementsAre("s__u*", "a"));
  const FeatureLayout none = sequence_layout(kGrouped);
  EXPECT_THAT(inputs(none.find("s__b")), ElementsAre("s__b*"));
  EXPECT_EQ(none.sequences[0].max_length, 0) << "encoded sequences are read as they are";
}

std::string with_encoders(const std::string& encoders) {
  return std::string(kGrouped) + "data_config { fg_mode: FG_DAG } model_config { " +
         "feature_groups { group_name: 'all' feature_names: 'i' " +
         "sequence_groups { group_name: 'g' feature_names: 's__a' feature_names: 's__c' } " +
         encoders + " } }";
}

TEST(Sequences, AreCutToWhatTheirEncodersRead) {
  const auto length = [](const std::string& encoders) {
    return sequence_layout(with_encoders(encoders)).sequences[0].max_length;
  };
  EXPECT_EQ(length("sequence_encoders { pooling_encoder {} }"), 50);
  EXPECT_EQ(length("sequence_encoders { pooling_encoder { max_seq_length: 7 } }"), 7);
  EXPECT_EQ(length("sequence_encoders { pooling_encoder { max_seq_length: 70 } }"), 50);
}

TEST(Sequences, EncodersOfOneReadEquallyManyElements) {
  EXPECT_THAT(
      [] {
        sequence_layout(
            with_encoders("sequence_encoders { pooling_encoder { max_seq_length: 7 } } "
                          "sequence_encoders { self_attention_encoder { input: 'g' } }"));
      },
      ThrowsMessage<Error>(HasSubstr("is read with max_seq_length 7 and 0")));
}

TEST(Sequences, StandaloneFeaturesOfAGroupBelongTogether) {
  const std::string features = R"(
      data_config { fg_mode: FG_DAG }
      feature_configs { sequence_id_feature { feature_name: "a" expression: "user:x"
                                              num_buckets: 9 } }
      feature_configs { sequence_raw_feature { feature_name: "b" sequence_length: 7 } }
      feature_configs { sequence_id_feature { feature_name: "c" num_buckets: 9 } }
      feature_configs { id_feature { feature_name: "q" num_buckets: 9 } })";
  const FeatureLayout alone = sequence_layout(features);
  EXPECT_EQ(alone.sequences.size(), 3u) << "each is a sequence of its own";
  EXPECT_TRUE(alone.find("a").config.has_id_feature());
  EXPECT_THAT(inputs(alone.find("a")), ElementsAre("x*"));
  EXPECT_THAT(inputs(alone.find("c")), ElementsAre("c*"));

  const FeatureLayout grouped = sequence_layout(
      features +
      "model_config { feature_groups { group_name: 'g' group_type: SEQUENCE feature_names: ['q', "
      "'c', 'a'] } feature_groups { group_name: 'd' sequence_groups { feature_names: ['a', 'b'] } "
      "} }");
  ASSERT_EQ(grouped.sequences.size(), 1u) << "groups with a feature in common are one";
  EXPECT_THAT(members(grouped, 0), ElementsAre("c", "a", "b")) << "the first has the lengths";
  EXPECT_EQ(grouped.sequences[0].max_length, 7);
  EXPECT_EQ(grouped.sequences[0].dense_cols, 1);
  EXPECT_EQ(grouped.find("q").sequence, -1);
}

TEST(Sequences, IntermediateFeaturesAreNotInBatches) {
  const FeatureLayout features = sequence_layout(R"(
      data_config { fg_mode: FG_DAG }
      feature_configs { raw_feature { feature_name: "a" stub_type: true } }
      feature_configs { id_feature { feature_name: "b" num_buckets: 3 stub_type: true } }
      feature_configs { sequence_id_feature { feature_name: "s" num_buckets: 3 stub_type: true } }
      feature_configs { expr_feature { feature_name: "c" expression: "a*2"
                                       variables: "feature:a" } })");
  EXPECT_EQ(features.dense_cols, 1);
  EXPECT_EQ(features.sparse_count, 0);
  EXPECT_THAT(features.sequences, IsEmpty());
  EXPECT_TRUE(features.find("a").is_intermediate);
  EXPECT_EQ(features.find("c").dense_begin, 0);
  EXPECT_THAT(inputs(features.find("c")), ElementsAre("feature:a"));
}

TEST(Sequences, TokensCanBeOne) {
  const TempFolder folder;
  const std::string vocabulary = folder.write(
      "tokenizer.json", R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}})");
  const FeatureLayout features = sequence_layout(
      "data_config { fg_mode: FG_DAG } feature_configs { tokenize_feature { feature_name: 't' "
      "expression: 'item:title' tokens_as_sequence: true vocab_file: '" +
      vocabulary + "' } }");
  EXPECT_EQ(features.find("t").sequence, 0);
  EXPECT_THAT(inputs(features.find("t")), ElementsAre("title")) << "a text per row";
}

TEST(Sequences, NestedGroupsInheritNameAndSuffix) {
  const PipelineConfig config = parse_pipeline(
      "model_config { feature_groups { group_name: 'd' embedding_name_suffix: 'x' sequence_groups "
      "{ feature_names: 'a' } } feature_groups { group_name: 'e' sequence_groups { group_name: 'n' "
      "embedding_name_suffix: 'y' } } }",
      "x");
  const auto groups = sequence_groups_of(config.model_config());
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].name, "d");
  EXPECT_EQ(groups[0].suffix, "x");
  EXPECT_EQ(groups[1].name, "n");
  EXPECT_EQ(groups[1].suffix, "y");
}

TEST(TableRows, AreDivided) {
  const FeatureLayout features = sequence_layout(
      "train_config { divide_tables: 4 } feature_configs { id_feature { feature_name: 'a' "
      "num_buckets: 10 } } feature_configs { id_feature { feature_name: 'b' num_buckets: 3 } } "
      "feature_configs { id_feature { feature_name: 'c' dynamicemb {} } }");
  EXPECT_EQ(table_rows(features.find("a")), 2);
  EXPECT_EQ(features.find("a").rows, 10);
  EXPECT_EQ(table_rows(features.find("b")), 1);
  EXPECT_EQ(table_rows(features.find("c")), 0);
}

}  // namespace
}  // namespace emblem
