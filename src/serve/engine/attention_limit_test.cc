#include "serve/engine/attention_limit.h"

#include <gmock/gmock.h>

#include "config/load/load.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

AttentionLimit limit_of(const std::string& encoder, const std::string& length,
                        FeatureLayout* layout) {
  const PipelineConfig config = parse_pipeline(
      R"(data_config { fg_mode: FG_DAG label_fields: "label" }
         feature_configs { sequence_feature { sequence_name: "s" sequence_delim: ";" )" +
          length + R"(
           features { id_feature { feature_name: "item" num_buckets: 9 embedding_dim: 4 } } } }
         feature_configs { sequence_feature { sequence_name: "t" sequence_delim: ";"
           features { id_feature { feature_name: "item" num_buckets: 9 embedding_dim: 4 } } } }
         model_config { feature_groups { group_name: "deep"
           sequence_groups { group_name: "a" feature_names: "s__item" }
           sequence_groups { group_name: "b" feature_names: "t__item" }
           sequence_encoders { )" +
          encoder + R"( { input: "a" } }
           sequence_encoders { pooling_encoder { input: "b" } } } })",
      "x.config");
  *layout = layout_of(config);
  return {config.model_config(), *layout};
}

// A row of 3 elements and one of `elements`, in both sequences.
Batch batch_of(int32_t elements) {
  Batch batch;
  batch.rows = 2;
  batch.resize_sequences(2);
  for (SequenceColumn& sequence : batch.sequences) {
    for (const int32_t offset : {0, 3, 3 + elements}) sequence.offsets.push_back(offset);
  }
  return batch;
}

TEST(AttentionLimitTest, SequencesThatAreComparedWithThemselvesAreLimited) {
  FeatureLayout layout;
  const AttentionLimit limit = limit_of("self_attention_encoder", "", &layout);
  ASSERT_EQ(layout.sequences.size(), 2u);
  limit.check(batch_of(4096));
  EXPECT_THAT([&] { limit.check(batch_of(4097)); },
              ThrowsMessage<Error>(HasSubstr("row 1: sequence \"s\" has 4097 elements; at most "
                                             "4096 are allowed")));
}

TEST(AttentionLimitTest, OthersAndThoseWithALimitOfTheirOwnAreNot) {
  FeatureLayout layout;
  limit_of("pooling_encoder", "", &layout).check(batch_of(1'000'000));
  limit_of("self_attention_encoder", "sequence_length: 2000000", &layout)
      .check(batch_of(1'000'000));
}

}  // namespace
}  // namespace emblem
