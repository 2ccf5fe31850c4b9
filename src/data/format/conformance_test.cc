// Every format gives the same batches for the same rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/math/hash.h"
#include "data/format/formats_test.h"
#include "data/format/reader.h"

namespace emblem {
namespace {

class Conformance : public testing::TestWithParam<TestFormat> {
 protected:
  void SetUp() override {
    if (!GetParam().is_there()) GTEST_SKIP() << "built without Arrow";
  }
};

TEST_P(Conformance, BatchesHoldTheRowsInTheirOrder) {
  const std::vector<TestRow> rows = random_rows(1000, 5);
  const TempFolder folder;
  LoaderOptions options;
  options.input = GetParam().write(folder, rows);
  options.batch_size = 300;
  options.piece_bytes = 1000;
  const TestPipeline pipeline = GetParam().pipeline();
  Loader loader(pipeline.config.data_config(), pipeline.features, options);
  size_t at = 0;
  Batch batch;
  while (loader.next(batch)) {
    ASSERT_EQ(batch.labels.size(), static_cast<size_t>(batch.rows));
    for (int64_t i = 0; i < batch.rows; ++i, ++at) {
      const TestRow& row = rows[at];
      EXPECT_EQ(batch.labels[i], static_cast<float>(row.label));
      EXPECT_EQ(batch.sparse[0].keys[i], row.categories[0]);
      EXPECT_EQ(batch.sparse[1].keys[i],
                static_cast<int64_t>(fg_hash(std::to_string(row.categories[1])) % 1000));
      EXPECT_EQ(batch.sparse[2].keys[i], row.categories[2]);
      if (!GetParam().has_dense) continue;
      EXPECT_NEAR(batch.dense[2 * i], std::log(row.dense[0] + 3.0), 1e-6);
      EXPECT_EQ(batch.dense[2 * i + 1], static_cast<float>(row.dense[1]));
    }
    for (const SparseColumn& column : batch.sparse) {
      EXPECT_TRUE(column.offsets.empty() && column.weights.empty());
    }
    EXPECT_EQ(batch.last_in_epoch, at == rows.size());
  }
  EXPECT_EQ(at, rows.size());
}

TEST_P(Conformance, SequentialReadingGivesTheSameRows) {
  const std::vector<TestRow> rows = random_rows(20000, 6);
  const TempFolder folder;
  DataSource source = guess_source(GetParam().write(folder, rows));
  source.num_dense = 2;
  source.num_sparse = 3;
  const std::unique_ptr<BlockReader> reader = open_reader(source);
  const std::vector<ColumnSpec>& schema = reader->schema();
  ASSERT_EQ(schema.size(), GetParam().has_dense ? 6u : 4u);
  size_t at = 0;
  Block block;
  while (reader->next(block)) {
    for (int64_t i = 0; i < block.rows; ++i, ++at) {
      for (size_t c = 0; c < schema.size(); ++c) {
        const Column& column = block.columns[c];
        ASSERT_EQ(column.type, schema[c].type);
        const double value = column.type == ColumnType::kFloat
                                 ? column.floats[i]
                                 : static_cast<double>(column.ints[i]);
        const size_t sparse_begin = GetParam().has_dense ? 3 : 1;
        const int64_t expected = c == 0 ? rows[at].label
                                 : c < sparse_begin
                                     ? rows[at].dense[c - 1]
                                     : int64_t{rows[at].categories[c - sparse_begin]};
        ASSERT_EQ(value, static_cast<double>(expected))
            << "row " << at << ", column " << schema[c].name;
      }
    }
  }
  EXPECT_EQ(at, rows.size());
  EXPECT_EQ(reader->bytes_read(), reader->total_bytes() - (source.with_header ? 21 : 0));
}

// All settings that the order of rows depends on, and the number of workers, on which it must not.
TEST_P(Conformance, AnyPositionContinuesExactlyWhateverTheWorkers) {
  const std::vector<TestRow> rows = random_rows(2500, 7);
  const TempFolder folder;
  const std::string input = GetParam().write(folder, rows);
  const TestPipeline pipeline = GetParam().pipeline();
  struct Setting {
    int64_t batch_size, shuffle_rows;
    double sample_ratio;
    bool shuffle, drop_remainder;
    RowPart rows = RowPart::kAll;
  };
  for (const Setting& setting :
       {Setting{300, 0, 1.0, false, false}, Setting{700, 0, 0.6, false, true},
        Setting{128, 500, 1.0, true, false}, Setting{512, 1300, 0.7, true, true},
        Setting{512, 100000, 1.0, true, false}, Setting{64, 0, 1.0, true, false},
        Setting{128, 500, 0.8, true, false, RowPart::kTraining},
        Setting{128, 0, 1.0, false, false, RowPart::kHoldout}}) {
    LoaderOptions options;
    options.input = input;
    options.batch_size = setting.batch_size;
    options.shuffle = setting.shuffle;
    options.shuffle_rows = setting.shuffle_rows;
    options.sample_ratio = setting.sample_ratio;
    options.drop_remainder = setting.drop_remainder;
    options.holdout_ratio = 0.3;
    options.rows = setting.rows;
    options.epochs = 2;
    options.piece_bytes = 3000;
    options.prefetch_batches = 2;
    const std::vector<SeenBatch> all = read_all(pipeline, options);
    ASSERT_FALSE(all.empty());
    for (const int workers : {2, 4}) {
      options.workers = workers;
      const std::vector<SeenBatch> again = read_all(pipeline, options);
      ASSERT_EQ(again.size(), all.size());
      for (size_t i = 0; i < all.size(); ++i)
        ASSERT_EQ(again[i].content, all[i].content) << workers;
    }
    for (size_t from = 0; from < all.size(); from += 1 + from / 3) {
      options.workers = 1 + static_cast<int>(from % 3);
      options.start = all[from].next;
      const std::vector<SeenBatch> rest = read_all(pipeline, options);
      ASSERT_EQ(rest.size(), all.size() - from - 1) << describe(options.start);
      for (size_t i = 0; i < rest.size(); ++i) {
        ASSERT_EQ(rest[i].content, all[from + 1 + i].content) << describe(options.start);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Conformance, testing::ValuesIn(kFormats),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace emblem
