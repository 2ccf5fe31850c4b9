// Sequences from CSV text to batches: lengths, defaults, cutting and padding, and that rows keep
// theirs in every order.
#include <gmock/gmock.h>

#include "core/math/hash.h"
#include "data/test_data.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::IsEmpty;

class Sequences : public testing::Test {
 protected:
  // One batch. The columns are label, then `names`; a row's fields are separated by commas.
  Batch read(const std::string& mode, const std::string& features, const std::string& names,
             const std::string& rows) {
    const TestPipeline pipeline("data_config { with_header: true fg_mode: " + mode + " } " +
                                features);
    LoaderOptions options;
    options.input = folder_.write("rows.csv", "label," + names + "\n" + rows);
    Loader loader(pipeline.config.data_config(), pipeline.features, options);
    Batch batch;
    EXPECT_TRUE(loader.next(batch));
    counts_ = loader.statistics().counts;
    return batch;
  }
  std::string error(const std::string& mode, const std::string& features, const std::string& names,
                    const std::string& rows) {
    const TestPipeline pipeline("data_config { with_header: true fg_mode: " + mode + " } " +
                                features);
    LoaderOptions options;
    options.input = folder_.write("rows.csv", "label," + names + "\n" + rows);
    return loader_error(pipeline, options);
  }

  TempFolder folder_;
  FeatureCounts counts_;
};

std::string id_sequence(const std::string& settings) {
  return "feature_configs { sequence_id_feature { feature_name: 's' embedding_dim: 4 " + settings +
         " } }";
}

TEST_F(Sequences, OfEncodedIds) {
  const std::string rows =
      "1,1;2\n1,\n1,3\n1,4\x03"
      "5;6\n";
  const Batch batch = read("FG_NONE", id_sequence("num_buckets: 10"), "s", rows);
  ASSERT_EQ(batch.sequences.size(), 1u);
  EXPECT_THAT(batch.sequences[0].offsets, ElementsAre(0, 2, 2, 3, 5));
  EXPECT_THAT(batch.sequences[0].numbers, IsEmpty());
  EXPECT_EQ(batch.sparse[0].sequence, 0);
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(batch.sparse[0].offsets, ElementsAre(0, 1, 2, 3, 5, 6));

  const Batch filled =
      read("FG_NONE", id_sequence("num_buckets: 10 fg_encoded_default_value: '0'"), "s", rows);
  EXPECT_THAT(filled.sequences[0].offsets, ElementsAre(0, 2, 3, 4, 6));
  EXPECT_THAT(filled.sparse[0].keys, ElementsAre(1, 2, 0, 3, 4, 5, 6));
  EXPECT_THAT(filled.sparse[0].offsets, ElementsAre(0, 1, 2, 3, 4, 6, 7));
}

TEST_F(Sequences, OfEncodedIdsAreNotCut) {
  const Batch batch =
      read("FG_NONE", id_sequence("num_buckets: 10 sequence_length: 2"), "s", "1,1;2;3\n");
  EXPECT_THAT(batch.sequences[0].offsets, ElementsAre(0, 3));
  EXPECT_EQ(counts_.cut_sequences, 0);
}

TEST_F(Sequences, OfEncodedNumbers) {
  const Batch batch = read("FG_NONE", R"(feature_configs { sequence_raw_feature {
      feature_name: "s" value_dim: 2 fg_encoded_default_value: "0\0030" } })",
                           "s",
                           "1,0.1\x03"
                           "1.1;0.2\x03"
                           "1.2\n1,\n1,0.3\x03"
                           "1.3\n");
  EXPECT_THAT(batch.sequences[0].offsets, ElementsAre(0, 2, 3, 4));
  EXPECT_THAT(batch.sequences[0].numbers, ElementsAre(0.1f, 1.1f, 0.2f, 1.2f, 0, 0, 0.3f, 1.3f));
}

TEST_F(Sequences, OfHashedTextHaveTheDefaultWhereValuesAreMissing) {
  const std::string rows =
      "1,abc\x1d"
      "efg;hij\n1,\n1,hij\n";
  struct Case {
    const char* settings;
    std::vector<int64_t> keys;
    std::vector<int32_t> offsets;
  };
  const Case cases[] = {
      {"value_dim: 0", {33, 44, 66, 26, 66}, {0, 2, 3, 4, 5}},
      {"value_dim: 0 default_value: 'xyz'", {33, 44, 66, 13, 66}, {0, 2, 3, 4, 5}},
      {"value_dim: 1", {33, 66, 26, 66}, {}},
      {"default_value: 'xyz'", {33, 66, 13, 66}, {}},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.settings);
    const Batch batch =
        read("FG_NORMAL", id_sequence(cat("hash_bucket_size: 100 ", each.settings)), "s", rows);
    EXPECT_THAT(batch.sequences[0].offsets, ElementsAre(0, 2, 3, 4));
    EXPECT_THAT(batch.sparse[0].keys, ElementsAreArray(each.keys));
    EXPECT_THAT(batch.sparse[0].offsets, ElementsAreArray(each.offsets));
  }
}

TEST_F(Sequences, OfNumberedIds) {
  const std::string rows =
      "1,1;2\n1,\n1,3\n1,4\x1d"
      "5;6\n";
  const Batch all = read("FG_NORMAL", id_sequence("num_buckets: 10 value_dim: 0"), "s", rows);
  EXPECT_THAT(all.sequences[0].offsets, ElementsAre(0, 2, 3, 4, 6));
  EXPECT_THAT(all.sparse[0].keys, ElementsAre(1, 2, 0, 3, 4, 5, 6));
  EXPECT_THAT(all.sparse[0].offsets, ElementsAre(0, 1, 2, 3, 4, 6, 7));
  const Batch first = read("FG_NORMAL", id_sequence("num_buckets: 10 value_dim: 1"), "s", rows);
  EXPECT_THAT(first.sparse[0].keys, ElementsAre(1, 2, 0, 3, 4, 6));
  EXPECT_THAT(first.sparse[0].offsets, IsEmpty());
}

TEST_F(Sequences, HaveAnElementBetweenAnyTwoDelimiters) {
  const Batch batch = read("FG_NORMAL",
                           id_sequence("vocab_list: ['a', 'b', 'c'] default_value: '0' "
                                       "sequence_delim: '|'"),
                           "s", "1,c||a|b|b|\n1,\n1,a|b||c\n");
  EXPECT_THAT(batch.sequences[0].offsets, ElementsAre(0, 6, 7, 11));
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(4, 0, 2, 3, 3, 0, 0, 2, 3, 0, 4));
}

TEST_F(Sequences, AreCutToTheirFirstElementsAndCounted) {
  const Batch batch = read("FG_DAG", id_sequence("num_buckets: 10 sequence_length: 2"), "s",
                           "1,1;2;99\n1,3\n1,4;5\n1,6;7;8;9\n");
  EXPECT_THAT(batch.sequences[0].offsets, ElementsAre(0, 2, 3, 5, 7));
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(1, 2, 3, 4, 5, 6, 7)) << "99 is cut, not bad";
  EXPECT_EQ(counts_.cut_sequences, 2);
}

constexpr const char* kGrouped = R"(feature_configs { sequence_feature {
  sequence_name: "click" sequence_length: 3 sequence_delim: "|"
  features { id_feature { feature_name: "item" num_buckets: 100 embedding_dim: 4 } }
  features { raw_feature { feature_name: "price" } }
  features { raw_feature { feature_name: "where" value_dim: 2 separator: "," default_value: "7" } }
  features { raw_feature { feature_name: "hour" boundaries: [6, 12] embedding_dim: 4 } } } })";

TEST_F(Sequences, OfAGroupShareTheirLengths) {
  const Batch batch = read("FG_DAG", kGrouped, "click__item,click__price,click__where,click__hour",
                           "1,1|2|3|4,.1|.2|.3|.4,\"1,2|3,4||5,6\",1|7|13|1\n1,5,.5,\"8,9\",12\n");
  ASSERT_EQ(batch.sequences.size(), 1u);
  EXPECT_THAT(batch.sequences[0].offsets, ElementsAre(0, 3, 4));
  EXPECT_THAT(batch.sequences[0].numbers, ElementsAre(.1f, 1, 2, .2f, 3, 4, .3f, 7, 7, .5f, 8, 9));
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(1, 2, 3, 5));
  EXPECT_THAT(batch.sparse[1].keys, ElementsAre(0, 1, 2, 2)) << "12 is not below 12";
  EXPECT_EQ(batch.sparse[1].sequence, 0);
  EXPECT_EQ(counts_.cut_sequences, 4) << "one row, four features";
  EXPECT_EQ(counts_.fitted_sequences, 0);
}

TEST_F(Sequences, OfAGroupHaveTheLengthsOfTheFirstFeature) {
  const Batch batch = read("FG_DAG", kGrouped, "click__item,click__price,click__where,click__hour",
                           "1,1|2,.1|.2|.3,\"1,2\",13\n1,,.5|.6,,1|2\n");
  EXPECT_THAT(batch.sequences[0].offsets, ElementsAre(0, 2, 3));
  EXPECT_THAT(batch.sequences[0].numbers, ElementsAre(.1f, 1, 2, .2f, 0, 0, .5f, 7, 7));
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(1, 2, 0));
  EXPECT_THAT(batch.sparse[1].keys, ElementsAre(2, 0));
  EXPECT_THAT(batch.sparse[1].offsets, ElementsAre(0, 1, 1, 2)) << "the second is padding";
  EXPECT_EQ(counts_.fitted_sequences, 5);
}

TEST_F(Sequences, ThatCannotBeReadNameTheirColumn) {
  EXPECT_THAT(error("FG_DAG", id_sequence("num_buckets: 10"), "s", "1,1;x\n"),
              HasSubstr("rows.csv:2: column s: \"x\" is not an integer"));
  EXPECT_THAT(
      error("FG_DAG", id_sequence("num_buckets: 10"), "s", "1,1\n1,2;10\n"),
      HasSubstr("rows.csv:3: feature s: id 10 is outside a static table of num_buckets 10"));
  EXPECT_THAT(error("FG_DAG", id_sequence("num_buckets: 10"), "t", "1,1\n"),
              HasSubstr("rows.csv has no column \"s\""));
  EXPECT_THAT(error("FG_DAG",
                    "feature_configs { sequence_raw_feature { feature_name: 's' "
                    "value_dim: 2 separator: '|' } }",
                    "s", "1,1|2;3\n"),
              HasSubstr("rows.csv:2: feature s: found 1 values, expected value_dim 2"));
}

// Text of random sequences, and what is expected of each row.
struct RandomRows {
  std::string text = "label,n,items,prices\n";
  std::vector<std::vector<int64_t>> items;
};

RandomRows random_sequences(int count, uint64_t seed) {
  Random random{seed, 9};
  RandomRows rows;
  for (int i = 0; i < count; ++i) {
    std::vector<int64_t>& items = rows.items.emplace_back();
    std::string text, prices;
    for (uint64_t k = 0; k < random.below(6); ++k) {
      items.push_back(static_cast<int64_t>(random.below(1000)));
      text += cat(k == 0 ? "" : ";", items.back());
      prices += cat(k == 0 ? "" : ";", items.back() * 2);
    }
    rows.text += cat(i % 2, ',', i, ',', text, ',', prices, '\n');
  }
  return rows;
}

TEST_F(Sequences, StayWithTheirRows) {
  const TestPipeline pipeline(R"(data_config { with_header: true fg_mode: FG_NONE }
    feature_configs { raw_feature { feature_name: "n" } }
    feature_configs { sequence_id_feature { feature_name: "items" num_buckets: 1000 embedding_dim: 4 } }
    feature_configs { sequence_raw_feature { feature_name: "prices" } })");
  ASSERT_EQ(pipeline.features.sequences.size(), 2u);
  const RandomRows rows = random_sequences(300, 4);
  LoaderOptions options;
  options.input = folder_.write("rows.csv", rows.text);
  options.batch_size = 11;
  options.piece_bytes = 500;
  for (const int workers : {1, 3}) {
    for (const int64_t shuffle_rows : {0, 64}) {
      options.workers = workers;
      options.shuffle = shuffle_rows > 0;
      options.shuffle_rows = shuffle_rows;
      Loader loader(pipeline.config.data_config(), pipeline.features, options);
      Batch batch;
      size_t seen = 0;
      while (loader.next(batch)) {
        for (int64_t row = 0; row < batch.rows; ++row, ++seen) {
          const auto& expected = rows.items[static_cast<size_t>(batch.dense[row])];
          std::vector<int64_t> items;
          for (int s = 0; s < 2; ++s) {
            const SequenceColumn& sequence = batch.sequences[s];
            ASSERT_EQ(sequence.offsets[row + 1] - sequence.offsets[row],
                      static_cast<int32_t>(expected.size()));
            for (int32_t at = sequence.offsets[row]; at < sequence.offsets[row + 1]; ++at)
              items.push_back(s == 0 ? batch.sparse[0].keys[at]
                                     : static_cast<int64_t>(sequence.numbers[at]) / 2);
          }
          std::vector<int64_t> twice = expected;
          twice.insert(twice.end(), expected.begin(), expected.end());
          EXPECT_EQ(items, twice);
        }
      }
      EXPECT_EQ(seen, rows.items.size());
    }
  }
}

TEST_F(Sequences, OfBlankRowsAreEmpty) {
  const TestPipeline pipeline("data_config { with_header: true fg_mode: FG_DAG } " +
                              id_sequence("num_buckets: 10"));
  LoaderOptions options;
  options.input = folder_.write("rows.csv", "label,s\n1,1;2\n1,3;99\n0,4\n0,x\n");
  options.bad_rows = BadRowHandling::kBlank;
  options.max_bad_rows = 2;
  Loader loader(pipeline.config.data_config(), pipeline.features, options);
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  EXPECT_THAT(batch.bad, ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(batch.sequences[0].offsets, ElementsAre(0, 2, 2, 3, 3));
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(1, 2, 4));
}

}  // namespace
}  // namespace emblem
