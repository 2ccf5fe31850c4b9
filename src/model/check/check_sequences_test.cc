#include <gmock/gmock.h>

#include "config/load/load.h"
#include "emblem/error.h"
#include "model/check/check.h"

namespace emblem {
namespace {

using testing::HasSubstr;

// s__a and s__b are elements of a sequence, q and i belong to rows.
std::string sequences_verdict(const std::string& groups, const std::string& features = "",
                              const std::vector<std::string>& changes = {}) {
  const std::string text = R"(
      train_input_path: "train" model_dir: "out" train_config { num_epochs: 1 }
      data_config { label_fields: "clk" }
      feature_configs { raw_feature { feature_name: "i" } }
      feature_configs { id_feature { feature_name: "q" num_buckets: 9 embedding_dim: 8 } }
      feature_configs { sequence_feature { sequence_name: "s" sequence_length: 50
        features { id_feature { feature_name: "a" num_buckets: 9 embedding_dim: 4 } }
        features { raw_feature { feature_name: "b" } } } }
      feature_configs { sequence_id_feature { feature_name: "t" num_buckets: 9 embedding_dim: 8
                                              sequence_length: 20 } })" +
                           features + "model_config { " + groups + " }";
  try {
    check_pipeline(parse_pipeline(text, "good", changes));
  } catch (const Error& error) {
    return error.what();
  }
  return "fine";
}

std::string deep(const std::string& sequences) {
  return sequences_verdict("dnn {} feature_groups { group_name: 'deep' feature_names: 'q' " +
                           sequences + " }");
}

TEST(CheckSequences, DeepGroupsHaveThemInSequenceGroups) {
  const std::string group = "sequence_groups { group_name: 'g' feature_names: 's__a' } ";
  EXPECT_EQ(deep(group + "sequence_encoders { pooling_encoder { input: 'g' } }"), "fine");
  EXPECT_EQ(deep("feature_names: 's__a'"),
            "feature group \"deep\" is DEEP, but \"s__a\" is a sequence; put it into "
            "sequence_groups with an encoder, or into a group with group_type: SEQUENCE");
  EXPECT_EQ(deep(group),
            "sequence group \"g\" of feature group \"deep\" has no encoder; add one to "
            "sequence_encoders with input: \"g\"");
  EXPECT_EQ(
      deep("sequence_encoders { pooling_encoder { input: 'g' } }"),
      "feature group \"deep\" has sequence_encoders, but no sequence_groups for them to read");
  EXPECT_EQ(deep(group + "sequence_encoders { pooling_encoder { input: 'h' } }"),
            "feature group \"deep\": pooling_encoder reads \"h\", which is none of its "
            "sequence_groups; set its input to one of them");
  EXPECT_EQ(deep("sequence_groups { feature_names: 's__a' } sequence_encoders { pooling_encoder {} "
                 "}"),
            "fine")
      << "the only one has the name of its parent";
}

TEST(CheckSequences, FeaturesOfRowsReadNoSequences) {
  const std::string group = "dnn {} feature_groups { group_name: 'deep' feature_names: 'q' }";
  const auto reader = [](const std::string& kind) {
    return "feature_configs { " + kind +
           " { feature_name: 'x' expression: 's__b + 1' variables: 'feature:s__b' } } ";
  };
  EXPECT_THAT(sequences_verdict(group, reader("expr_feature"), {"data_config.fg_mode=FG_DAG"}),
              HasSubstr("feature \"x\" has one value per row, but reads \"s__b\", which is a "
                        "sequence"));
  EXPECT_EQ(
      sequences_verdict(group, reader("sequence_expr_feature"), {"data_config.fg_mode=FG_DAG"}),
      "fine");
}

TEST(CheckSequences, GroupsHaveNoIntermediateFeatures) {
  const auto with_stub = [](const std::string& kind) {
    return sequences_verdict(
        "dnn {} feature_groups { group_name: 'deep' feature_names: 'q' sequence_groups { "
        "feature_names: 's__a' feature_names: 'x' } sequence_encoders { pooling_encoder {} } }",
        "feature_configs { " + kind +
            " { feature_name: 'x' num_buckets: 3 embedding_dim: 4 sequence_length: 50 "
            "stub_type: true } }");
  };
  EXPECT_EQ(with_stub("id_feature"),
            "feature \"x\" has stub_type: true, so that only other features read it");
  EXPECT_EQ(with_stub("sequence_id_feature"),
            "feature \"x\" has stub_type: true, so that only other features read it");
}

TEST(CheckSequences, GroupsHaveASequence) {
  EXPECT_THAT(deep("sequence_groups { feature_names: 'i' } sequence_encoders { pooling_encoder {} "
                   "}"),
              HasSubstr("has no sequence; add a feature of a sequence_feature"));
  EXPECT_THAT(deep("sequence_groups { feature_names: 's__a' feature_names: 't' } sequence_encoders "
                   "{ pooling_encoder {} }"),
              HasSubstr("\"s__a\" with sequence_length 50 and \"t\" with 20"));
  EXPECT_THAT(deep("sequence_groups { feature_names: 's__x' } sequence_encoders { pooling_encoder "
                   "{} }"),
              HasSubstr("there is no feature \"s__x\""));
}

TEST(CheckSequences, QueriesAreNoWiderThanElements) {
  const auto encoder = [](const std::string& features, const std::string& kind) {
    return deep("sequence_groups { group_name: 'g' " + features + " } sequence_encoders { " + kind +
                " }");
  };
  const std::string din = "din_encoder { input: 'g' attn_mlp { hidden_units: 4 } }";
  EXPECT_EQ(encoder("feature_names: 'q' feature_names: 't'", din), "fine");
  EXPECT_THAT(encoder("feature_names: 'q' feature_names: 's__a' feature_names: 's__b'", din),
              HasSubstr("a query of width 8 and elements of width 5, but din_encoder needs"));
  EXPECT_THAT(encoder("feature_names: 't'", din), HasSubstr("has no query, which din_encoder"));
  EXPECT_THAT(encoder("feature_names: 'q' feature_names: 't'", "din_encoder { input: 'g' }"),
              HasSubstr("din_encoder has no attn_mlp.hidden_units"));
  EXPECT_THAT(encoder("feature_names: 'i' feature_names: 't'", "simple_attention { input: 'g' }"),
              HasSubstr("simple_attention needs equal ones"));
  EXPECT_THAT(encoder("feature_names: 't'", "pooling_encoder { input: 'g' pooling_type: 'max' }"),
              HasSubstr("pooling_type is \"max\", expected mean or sum"));
  EXPECT_THAT(encoder("feature_names: 't'",
                      "self_attention_encoder { input: 'g' multihead_attn_dim: 10 num_heads: 4 }"),
              HasSubstr("expected a multiple of the heads"));
  EXPECT_THAT(encoder("feature_names: 'q' feature_names: 't'",
                      "multi_window_din_encoder { input: 'g' attn_mlp { hidden_units: 4 } }"),
              HasSubstr("has no windows_len"));
}

TEST(CheckSequences, DinTowersReadSequenceGroups) {
  const auto towers = [](const std::string& names) {
    return sequences_verdict(
        "feature_groups { group_name: 'u' feature_names: 'q' } feature_groups { "
        "group_name: 'seq' group_type: SEQUENCE " +
        names +
        " } multi_tower_din { towers { input: 'u' } din_towers { input: 'seq' attn_mlp "
        "{ hidden_units: 4 } } final { hidden_units: 4 } }");
  };
  EXPECT_EQ(towers("feature_names: 'q' feature_names: 't'"), "fine");
  EXPECT_THAT(towers("feature_names: 'q' feature_names: 's__a'"),
              HasSubstr("a query of width 8 and elements of width 4, but din_towers needs"));
}

TEST(CheckSequences, NumbersOfSequencesHaveNoVectors) {
  EXPECT_THAT(
      sequences_verdict(
          "dnn {} feature_groups { group_name: 'deep' feature_names: 'q' }",
          "feature_configs { sequence_raw_feature { feature_name: 'r' embedding_dim: 4 mlp {} "
          "} }"),
      HasSubstr("\"r\" is part of a sequence, where mlp is not supported"));
}

TEST(CheckSequences, StubsAreNotForModels) {
  EXPECT_THAT(
      sequences_verdict("dnn {} feature_groups { group_name: 'deep' feature_names: 'x' }",
                        "feature_configs { raw_feature { feature_name: 'x' stub_type: true } }"),
      HasSubstr("\"x\" has stub_type: true, so that only other features read it"));
}

TEST(CheckSequences, TablesOfSequenceGroupsAreTheirOwn) {
  const std::string other =
      "feature_configs { id_feature { feature_name: 'x' num_buckets: 7 embedding_dim: 8 "
      "embedding_name: 't_emb' } } ";
  const auto deep_and_sequence = [&](const std::string& query) {
    return sequences_verdict(
        "dnn {} feature_groups { group_name: 'deep' feature_names: 'x' sequence_groups { "
        "feature_names: 't' " +
            query + " } sequence_encoders { pooling_encoder {} } }",
        other);
  };
  EXPECT_EQ(deep_and_sequence(""), "fine");
  EXPECT_THAT(deep_and_sequence("feature_names: 'x'"),
              HasSubstr("\"t\" and \"x\" share table \"t_emb\", but have num_buckets 9 and"));
}

}  // namespace
}  // namespace emblem
