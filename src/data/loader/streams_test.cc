// Several streams that have the rows of a data set together.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "data/format/formats_test.h"
#include "data/loader/loader.h"

namespace emblem {
namespace {

// All values of row i, as text.
std::string row_text(const Batch& batch, int64_t i) {
  const auto dense_cols = static_cast<int64_t>(batch.dense.size()) / batch.rows;
  std::ostringstream text;
  text << batch.labels[static_cast<size_t>(i)];
  for (int64_t c = 0; c < dense_cols; ++c)
    text << ' ' << batch.dense[static_cast<size_t>(i * dense_cols + c)];
  for (const SparseColumn& column : batch.sparse)
    text << ' ' << column.keys[static_cast<size_t>(i)];
  return text.str();
}

using RowsByEpoch = std::map<int64_t, std::vector<std::string>>;

// Adds the rows of one stream, in the order in which they come.
void add_rows(const TestPipeline& pipeline, const LoaderOptions& options, RowsByEpoch& rows) {
  Loader loader(pipeline.config.data_config(), pipeline.features, options);
  Batch batch;
  while (loader.next(batch)) {
    const int64_t epoch = batch.next.epoch - (batch.last_in_epoch ? 1 : 0);
    for (int64_t i = 0; i < batch.rows; ++i) rows[epoch].push_back(row_text(batch, i));
  }
}

RowsByEpoch rows_of_streams(const TestPipeline& pipeline, LoaderOptions options, int64_t streams) {
  RowsByEpoch rows;
  options.streams = streams;
  for (options.stream = 0; options.stream < streams; ++options.stream)
    add_rows(pipeline, options, rows);
  for (auto& [epoch, of_epoch] : rows) std::sort(of_epoch.begin(), of_epoch.end());
  return rows;
}

class StreamFormats : public testing::TestWithParam<TestFormat> {
 protected:
  void SetUp() override {
    if (!GetParam().is_there()) GTEST_SKIP() << "built without Arrow";
  }
  LoaderOptions options_for(int rows) {
    LoaderOptions options;
    options.input = GetParam().write(folder_, random_rows(rows, 5));
    options.batch_size = 64;
    options.epochs = 2;
    return options;
  }
  TempFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(Formats, StreamFormats, testing::ValuesIn(kFormats),
                         [](const auto& info) { return info.param.name; });

TEST_P(StreamFormats, HaveEveryRowOfAnEpochOnceTogether) {
  LoaderOptions options = options_for(1500);
  const TestPipeline pipeline = GetParam().pipeline();
  options.holdout_ratio = 0.3;
  struct Setting {
    bool shuffle;
    int64_t shuffle_rows;
    double sample_ratio;
    RowPart rows;
  };
  for (const Setting& setting :
       {Setting{false, 0, 1.0, RowPart::kAll}, Setting{true, 200, 1.0, RowPart::kAll},
        Setting{true, 0, 0.5, RowPart::kTraining}, Setting{false, 0, 1.0, RowPart::kHoldout}}) {
    options.shuffle = setting.shuffle;
    options.shuffle_rows = setting.shuffle_rows;
    options.sample_ratio = setting.sample_ratio;
    options.rows = setting.rows;
    const RowsByEpoch expected = rows_of_streams(pipeline, options, 1);
    ASSERT_EQ(expected.size(), 2u);
    for (const int64_t streams : {2, 3, 8, 100}) {
      if (streams == 100 && setting.rows != RowPart::kAll) continue;
      EXPECT_EQ(rows_of_streams(pipeline, options, streams), expected)
          << streams << " streams, shuffle " << setting.shuffle;
    }
  }
}

TEST_P(StreamFormats, SayWhereTheirRowsAreInTheDataSet) {
  LoaderOptions options = options_for(1500);
  options.epochs = 1;
  const TestPipeline pipeline = GetParam().pipeline();
  RowsByEpoch expected;
  add_rows(pipeline, options, expected);
  options.streams = 3;
  std::map<int64_t, std::vector<std::string>> by_run;
  for (options.stream = 0; options.stream < options.streams; ++options.stream) {
    Loader loader(pipeline.config.data_config(), pipeline.features, options);
    Batch batch;
    while (loader.next(batch)) {
      int64_t row = 0;
      for (const StoredRows& stored : batch.stored) {
        EXPECT_EQ(stored.run % options.streams, options.stream);
        for (const int64_t end = row + stored.rows; row < end; ++row)
          by_run[stored.run].push_back(row_text(batch, row));
      }
      EXPECT_EQ(row, batch.rows);
    }
  }
  std::vector<std::string> in_order;
  for (const auto& [run, rows] : by_run) in_order.insert(in_order.end(), rows.begin(), rows.end());
  EXPECT_EQ(in_order, expected[0]);
}

TEST_P(StreamFormats, DivideSmallDataEvenly) {
  LoaderOptions options = options_for(2000);
  options.epochs = 1;
  const TestPipeline pipeline = GetParam().pipeline();
  for (const bool shuffle : {false, true}) {
    options.shuffle = shuffle;
    options.streams = 8;
    for (options.stream = 0; options.stream < 8; ++options.stream) {
      RowsByEpoch rows;
      add_rows(pipeline, options, rows);
      EXPECT_GE(rows[0].size(), 125u) << "stream " << options.stream;
      EXPECT_LE(rows[0].size(), 375u) << "stream " << options.stream;
    }
  }
}

TEST_P(StreamFormats, ContinueAtAnyPositionWhateverTheWorkers) {
  LoaderOptions options = options_for(1500);
  const TestPipeline pipeline = GetParam().pipeline();
  options.streams = 3;
  for (const bool shuffle : {false, true}) {
    options.shuffle = shuffle;
    options.shuffle_rows = 150;
    for (options.stream = 0; options.stream < 3; ++options.stream) {
      options.start = {};
      options.workers = 1;
      const std::vector<SeenBatch> all = read_all(pipeline, options);
      ASSERT_GT(all.size(), 8u);
      for (size_t from = 0; from < all.size(); from += 3) {
        options.workers = 1 + static_cast<int>(from % 4);
        options.start = all[from].next;
        const std::vector<SeenBatch> rest = read_all(pipeline, options);
        ASSERT_EQ(rest.size(), all.size() - from - 1) << describe(options.start);
        for (size_t i = 0; i < rest.size(); ++i)
          ASSERT_EQ(rest[i].content, all[from + 1 + i].content) << describe(options.start);
      }
    }
  }
}

// CSV files of numbered rows.
class StreamsTest : public testing::Test {
 protected:
  StreamsTest() {
    options_.batch_size = 10;
    options_.workers = 2;
  }
  void write(int rows) {
    std::string text = "label,id\n";
    for (int i = 0; i < rows; ++i) text += cat(i % 2, ",", 10'000 + i, "\n");
    options_.input = folder_.write("rows.csv", text);
  }
  LoaderOptions stream(int64_t stream, int64_t streams) const {
    LoaderOptions options = options_;
    options.stream = stream;
    options.streams = streams;
    return options;
  }
  // Batches of a stream, `most` at most: the epoch each is of, and its rows.
  std::vector<std::pair<int64_t, int64_t>> batches(const LoaderOptions& options, int most = 1000) {
    Loader loader(pipeline_.config.data_config(), pipeline_.features, options);
    std::vector<std::pair<int64_t, int64_t>> seen;
    for (Batch batch; static_cast<int>(seen.size()) < most && loader.next(batch);)
      seen.emplace_back(batch.next.epoch - (batch.last_in_epoch ? 1 : 0), batch.rows);
    return seen;
  }

  const TestPipeline pipeline_{R"(
    data_config { dataset_type: CsvDataset with_header: true label_fields: "label" fg_mode: FG_DAG }
    feature_configs { id_feature { feature_name: "id" num_buckets: 100000 embedding_dim: 4 } })"};
  TempFolder folder_;
  LoaderOptions options_;
};

TEST_F(StreamsTest, OfOneRowAllButOneAreEmpty) {
  write(1);
  for (const int64_t epochs : {1, 3}) {
    options_.epochs = epochs;
    int64_t rows = 0;
    for (int64_t s = 0; s < 100; ++s) {
      const auto seen = batches(stream(s, 100));
      EXPECT_THAT(seen.size(), testing::AnyOf(0u, static_cast<size_t>(epochs)));
      rows += static_cast<int64_t>(seen.size());
    }
    EXPECT_EQ(rows, epochs);
  }
}

TEST_F(StreamsTest, WithoutRowsEndThoughDataIsReadWithoutEnd) {
  write(1);
  options_.epochs = 0;
  size_t endless = 0;
  for (int64_t s = 0; s < 8; ++s) endless += batches(stream(s, 8), 50).size() == 50;
  EXPECT_EQ(endless, 1u);
  options_.sample_ratio = 1e-12;
  for (const bool shuffle : {false, true}) {
    options_.shuffle = shuffle;
    for (int64_t s = 0; s < 8; ++s) EXPECT_TRUE(batches(stream(s, 8)).empty());
  }
}

// Shuffling gives the row to another stream in every epoch: no stream ends because it has none in
// some, and in every epoch one stream has it.
TEST_F(StreamsTest, SkipEpochsInWhichTheyHaveNoRows) {
  write(1);
  options_.shuffle = true;
  options_.epochs = 60;
  std::map<int64_t, int64_t> rows;
  for (int64_t s = 0; s < 4; ++s) {
    const auto seen = batches(stream(s, 4));
    EXPECT_GT(seen.size(), 2u);
    for (const auto& [epoch, count] : seen) rows[epoch] += count;
  }
  EXPECT_EQ(rows.size(), 60u);
  EXPECT_THAT(rows, testing::Each(testing::Pair(testing::_, 1)));
  options_.epochs = 0;
  for (int64_t s = 0; s < 4; ++s) EXPECT_EQ(batches(stream(s, 4), 20).size(), 20u);
}

TEST_F(StreamsTest, DropTheirOwnRemainders) {
  write(200);
  options_.drop_remainder = true;
  options_.epochs = 2;
  for (const int64_t streams : {2, 8, 100}) {
    for (const bool shuffle : {false, true}) {
      options_.shuffle = shuffle;
      for (int64_t s = 0; s < streams; ++s) {
        const auto seen = batches(stream(s, streams));
        for (const auto& batch : seen) EXPECT_EQ(batch.second, 10);
        if (streams == 2) {
          EXPECT_THAT(seen.size(), testing::AllOf(testing::Ge(14u), testing::Le(24u)));
        }
        if (streams == 100) {
          EXPECT_TRUE(seen.empty());
        }
      }
    }
  }
  options_.epochs = 0;
  for (const bool shuffle : {false, true}) {
    options_.shuffle = shuffle;
    EXPECT_TRUE(batches(stream(99, 100)).empty());
    EXPECT_EQ(batches(stream(1, 2), 50).size(), 50u);
  }
}

TEST_F(StreamsTest, OfOneAreTheDataAsBefore) {
  write(500);
  options_.shuffle = true;
  options_.shuffle_rows = 100;
  const std::vector<SeenBatch> plain = read_all(pipeline_, options_);
  const std::vector<SeenBatch> one = read_all(pipeline_, stream(0, 1));
  ASSERT_EQ(one.size(), plain.size());
  for (size_t i = 0; i < one.size(); ++i) EXPECT_EQ(one[i].content, plain[i].content);
}

TEST_F(StreamsTest, ExpectTheirOwnRows) {
  write(10'000);
  for (const int64_t streams : {1, 4}) {
    for (int64_t s = 0; s < streams; ++s) {
      Loader loader(pipeline_.config.data_config(), pipeline_.features, stream(s, streams));
      Batch batch;
      ASSERT_TRUE(loader.next(batch));
      const auto share = 10'000.0 / static_cast<double>(streams);
      EXPECT_NEAR(static_cast<double>(loader.expected_rows()), share, 0.2 * share);
      while (loader.next(batch)) {
      }
      EXPECT_EQ(loader.expected_rows(), loader.statistics().rows);
    }
  }
}

TEST_F(StreamsTest, CountTheBadRowsThatTheyRead) {
  std::string text = "label,id\n";
  for (int i = 0; i < 400; ++i) text += i % 40 == 0 ? "x,y,z\n" : cat(i % 2, ",", i, "\n");
  options_.input = folder_.write("rows.csv", text);
  options_.max_bad_rows = 10;
  int64_t rows = 0, bad_rows = 0;
  for (int64_t s = 0; s < 5; ++s) {
    Loader loader(pipeline_.config.data_config(), pipeline_.features, stream(s, 5));
    for (Batch batch; loader.next(batch);) {
    }
    rows += loader.statistics().rows;
    bad_rows += loader.statistics().bad_rows;
  }
  EXPECT_EQ(rows, 390);
  EXPECT_EQ(bad_rows, 10);
}

TEST_F(StreamsTest, OfDataWithoutAnyRowAreRefusedByAll) {
  write(0);
  for (int64_t s = 0; s < 3; ++s)
    EXPECT_THAT(loader_error(pipeline_, stream(s, 3)), testing::HasSubstr("has no rows"));
}

TEST_F(StreamsTest, HaveNumbersBelowTheirCount) {
  write(10);
  EXPECT_EQ(loader_error(pipeline_, stream(3, 3)), "stream 3 of 3: streams count from 0");
  EXPECT_EQ(loader_error(pipeline_, stream(0, 0)), "stream 0 of 0: streams count from 0");
}

}  // namespace
}  // namespace emblem
